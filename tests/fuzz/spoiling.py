"""Spoilt checkpoints: a whole one, changed at random the way a hostile or broken writer would, and what a load makes of it.

Owns the mutations and the verdict on one case. A case is a number: the same number gives the same case. A load must either refuse with one of our
errors, or return a checkpoint that is whole; in memory that is bounded by the files, and soon.
"""

from __future__ import annotations

import json
import random
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from recovery.checkpoint.errors import CheckpointError
from recovery.checkpoint.manifest import FILE, ID_DOMAIN, STATE, digest
from recovery.checkpoint.packing import packed_header
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.strict import canonical
from tests.unit.checkpoint.disks import RecordingDisk
from tests.unit.checkpoint.making import Plain, spread

SHARD = "shard-000-of-001.safetensors"
MEMORY_MAX = 16 << 20  # bytes, beside what the files hold
SECONDS_MAX = 20.0

EXTREME: list[Callable[[random.Random], Any]] = [
    lambda _: None,
    lambda _: True,
    lambda _: -1,
    lambda r: r.choice([2**31, 2**32, 2**53, 2**63, 2**64, 10**30]) + r.randint(-1, 1),
    lambda _: 1.5,
    lambda _: "",
    lambda _: "../" * 5,
    lambda r: "a" * r.choice([1, 127, 128, 129, 70_000]),
    lambda _: "\u0000\ud7ff",
    lambda _: [],
    lambda r: [0] * r.choice([1, 33, 5000]),
    lambda _: {},
    lambda r: _nested(r.choice([31, 40, 3000])),
]


def _nested(depth: int) -> Any:
    found: Any = 0
    for _ in range(depth):
        found = [found]
    return found


def whole(directory: Path) -> dict[str, bytes]:
    """The files of a small checkpoint with a tensor of each sort, made anew in `directory`."""
    arrays = {
        "w/0": np.arange(12.0).reshape(3, 4),
        "m/0": np.ones(5, np.float32),
        "mask": np.array([True, False]),
        "scalar": np.array(7),
    }
    store = spread(directory, disk=RecordingDisk())
    saved = store.save(Plain(arrays, {"counter": 3, "rng": 2**100, "loss": [0.5, 0.25], "config": {"lr": 0.1, "name": "x"}}))
    return {path.name: path.read_bytes() for path in saved.path.iterdir()}


def spoilt(files: dict[str, bytes], number: int) -> dict[str, bytes]:
    """Case `number`: one to three changes, and in most cases digests, sizes and the id brought in line, so that the change is met further on."""
    chance = random.Random(number)
    changed = dict(files)
    for _ in range(chance.randint(1, 3)):
        name = chance.choice([FILE, FILE, STATE, SHARD, SHARD])
        changed[name] = chance.choice([_as_json, _as_json, _as_bytes])(chance, name, changed[name])
    if chance.random() < 0.8:
        _bring_in_line(changed, chance)
    return changed


def packed(files: dict[str, bytes], number: int | None = None) -> bytes:
    """The files in one. A case of it: the header that names them is spoilt too, once in four."""
    header, order = packed_header({name: len(data) for name, data in files.items()})
    chance = random.Random(number)
    if number is not None and chance.random() < 0.25:
        header = chance.choice([_as_json, _as_bytes])(chance, SHARD, header)
    return header + b"".join(files[name] for name in order)


def _as_bytes(chance: random.Random, _name: str, data: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    match chance.randrange(5):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + chance.randbytes(chance.randint(1, 9)) + data[at:]
        case 2:
            return data[:at] + data[at + chance.randint(1, 9) :]
        case 3:
            return chance.choice([0, 1, len(data) * 2, 10**12, 2**64 - 1]).to_bytes(8, "little") + data[8:]
        case _:
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :] if at < len(data) else data + b"\0"


def _as_json(chance: random.Random, name: str, data: bytes) -> bytes:
    """A change inside the document, or inside a shard's header."""
    length = int.from_bytes(data[:8], "little") if name == SHARD else len(data)
    text, rest = (data[8 : 8 + length], data[8 + length :]) if name == SHARD else (data, b"")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return _as_bytes(chance, name, data)
    places = list(_places(document))
    if not places:
        return _as_bytes(chance, name, data)
    holder, key = chance.choice(places)
    match chance.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[chance.choice(["extra", "__metadata__", "$int", key + "x"])] = holder[key]
        case 2 if type(holder[key]) is int:
            holder[key] += chance.choice([-1, 1, 8])
        case _:
            holder[key] = chance.choice(EXTREME)(chance)
    try:
        edited = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except RecursionError:
        return _as_bytes(chance, name, data)
    if name != SHARD:
        return edited
    return len(edited).to_bytes(8, "little") + edited + rest


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(document, dict | list):
        for key in list(document) if isinstance(document, dict) else range(len(document)):
            yield document, key
            yield from _places(document[key])


def _bring_in_line(files: dict[str, bytes], chance: random.Random) -> None:
    """What the manifest says about the files, and about itself, as far as it is still a manifest."""
    try:
        document = json.loads(files[FILE])
        for entry in document["files"]:
            if entry["name"] in files and chance.random() < 0.95:
                entry |= {"size": len(files[entry["name"]]), "blake3": digest(files[entry["name"]])}
        tensors = {name: {"dtype": tensor["dtype"], "shape": tensor["shape"]} for name, tensor in document["tensors"].items()}
        document["schema"] = digest(canonical(tensors))
        document["totals"] = {
            "bytes": sum(entry["size"] for entry in document["files"]),
            "files": len(document["files"]),
            "tensors": len(document["tensors"]),
        }
        document.pop("id", None)
        files[FILE] = canonical(document | {"id": digest(ID_DOMAIN + canonical(document))})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


def outcome(files: dict[str, bytes], root: Path, *, content: bytes | None = None) -> str:
    """Load the case from an empty directory `root`. "loaded", the name of our error, or what must not be: "WRONG: ...". content: that of one file, instead."""
    path = root / "ckpt" / _directory_of(files)
    path.parent.mkdir(parents=True)
    if content is not None:
        path.write_bytes(content)
    else:
        path.mkdir()
        for name, data in files.items():
            (path / name).write_bytes(data)
    store = CheckpointStore(root)
    candidate = Candidate(path, None)  # type: ignore[arg-type]  # what is loaded is judged by its own manifest
    tracemalloc.start()
    try:
        with _alarm():
            return _judged(store, candidate)
    finally:
        tracemalloc.stop()


def _judged(store: CheckpointStore, candidate: Candidate) -> str:
    told = ""
    try:
        loaded = store.load(candidate)
        told = "loaded"
        if any(not np.isfinite(array).all() for array in loaded.arrays.values()):
            return "WRONG: a number that is none was loaded"
    except CheckpointError as error:
        told = type(error).__name__
        told += f" {error.fields['reason']}" if "reason" in error.fields else ""
    except Exception as error:  # any other one is a fault of ours
        return f"WRONG: {type(error).__name__}: {str(error)[:200]}"
    size = sum(path.stat().st_size for path in (candidate.path, *candidate.path.rglob("*")))
    if (peak := tracemalloc.get_traced_memory()[1]) > size + MEMORY_MAX:
        return f"WRONG: {peak} bytes were taken for files of {size} ({told})"
    return told


def _directory_of(files: dict[str, bytes]) -> str:
    """The name that the manifest asks for, where it still does."""
    try:
        document = json.loads(files[FILE])
        name = f"{document['sequence']:012d}-{document['id'][:12]}"
    except (ValueError, KeyError, TypeError, RecursionError):
        name = ""
    return name if name.isascii() and name.replace("-", "").isalnum() and len(name) < 40 else "000000000001-0123456789ab"


@contextmanager
def _alarm() -> Iterator[None]:
    """A hang is an exception after SECONDS_MAX of this process's own time."""

    def ring(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS_MAX} s")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
