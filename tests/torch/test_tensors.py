"""Tensors cross to arrays and back without a bit of difference, under the dtypes that the safetensors library gives them."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors.torch
import torch

from recovery.checkpoint import narrow
from recovery.checkpoint.errors import CheckpointInvalid
from recovery.checkpoint.header import write_header
from recovery.checkpoint.torch.tensors import CODES, array_of, code_of, tensor_of


def some(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Any bits; for booleans, any truth."""
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, dtype=torch.bool)
    raw = torch.randint(0, 256, (*shape, dtype.itemsize), dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", CODES, ids=CODES.get)
@pytest.mark.parametrize("shape", [(), (3, 4), (0, 3)])
def test_every_dtype_goes_there_and_back(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = some(dtype, *shape)
    array = array_of(tensor, where="w/0")
    back = tensor_of(array.copy(), code_of(tensor, where="w/0"))
    assert (array.shape, back.dtype, tuple(back.shape), bits(back)) == (shape, dtype, shape, bits(tensor))


def test_views_conjugates_and_strides_are_saved_as_what_they_show() -> None:
    tensor = torch.arange(12.0).reshape(3, 4)
    assert np.array_equal(array_of(tensor.T[1:, ::2], where="w"), tensor.numpy().T[1:, ::2])
    assert np.array_equal(array_of(torch.tensor([1 + 2j]).conj(), where="w"), [1 - 2j])


def test_a_contiguous_tensor_is_not_copied() -> None:
    tensor = torch.zeros(4, dtype=torch.bfloat16)
    array = array_of(tensor, where="w")
    tensor += 1
    assert array["BF16"].tolist() == [0x3F80] * 4


def test_the_header_is_the_one_that_the_library_writes() -> None:
    tensors = {f"t{place}": torch.zeros(3, dtype=dtype) for place, dtype in enumerate(CODES)}
    ours, _ = write_header({name: (code_of(tensor, where=name), (3,)) for name, tensor in tensors.items()})
    assert safetensors.torch.save(tensors)[: len(ours)] == ours


@pytest.mark.parametrize("name", narrow.FORMATS)
def test_finite_and_negative_are_what_torch_says_for_every_bit_pattern(name: str) -> None:
    count = 1 << 8 * narrow.DTYPES[name].itemsize
    words = np.arange(count, dtype=narrow.FORMATS[name].word).view(narrow.DTYPES[name])
    told = tensor_of(words.copy(), name).float()
    finite = torch.isfinite(told)
    assert [narrow.is_finite(words[at : at + 1]) for at in range(count)] == finite.tolist()
    assert [narrow.has_negative(words[at : at + 1]) for at in range(count) if finite[at]] == (told < 0)[finite].tolist()


@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(2, dtype=torch.complex128), torch.zeros(2, 2).to_sparse(), torch.zeros(2, device="meta")],
    ids=["complex128", "sparse", "meta"],
)
def test_what_cannot_be_carried_bit_for_bit_is_refused_by_name(tensor: torch.Tensor) -> None:
    with pytest.raises(CheckpointInvalid, match=r"w/odd: .* cannot be saved bit for bit"):
        array_of(tensor, where="w/odd")
