"""Tensors and arrays: the same bytes under two libraries.

Owns which dtype of torch is which of safetensors'. Must not know files or plans. Invariant: no value is converted; what cannot be carried bit for bit is
refused by name.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any, Final

import torch

from recovery.checkpoint import narrow
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.shards import Array

CODES: Final = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint64: "U64", torch.uint32: "U32", torch.uint16: "U16", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip

DTYPES: Final = {code: dtype for dtype, code in CODES.items()}

_WORDS: Final = {"BF16": torch.int16, "F8_E4M3": torch.uint8, "F8_E5M2": torch.uint8}
"""As what a narrow float crosses to numpy."""


def code_of(tensor: Any, *, where: str) -> str:
    """The dtype as safetensors writes it. Raises CheckpointInvalid(reason="dtype")."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.is_meta or tensor.dtype not in CODES:
        told = f"{tensor.layout} {tensor.dtype} on {tensor.device}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        problem = f"{told} cannot be saved bit for bit; a dense tensor of one of {', '.join(DTYPES)} can"
        raise CheckpointInvalid(where=where, problem=problem, reason="dtype")
    return CODES[tensor.dtype]


def array_of(tensor: torch.Tensor, *, where: str) -> Array:
    """The tensor's elements. A contiguous tensor in main memory is not copied: the array is a view of it."""
    code = code_of(tensor, where=where)
    dense = tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous()
    array: Array = (dense.view(_WORDS[code]) if code in _WORDS else dense).numpy()
    return array.view(narrow.DTYPES[code]).reshape(array.shape) if code in _WORDS else array


def tensor_of(array: Array, code: str) -> torch.Tensor:
    """A tensor over the array's memory, which must be writable and contiguous."""
    if code not in _WORDS:
        return torch.from_numpy(array)
    words = array.view("i2" if _WORDS[code] is torch.int16 else "u1")
    return torch.from_numpy(words).view(DTYPES[code])
