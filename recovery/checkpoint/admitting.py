"""Reading a manifest that nobody has verified: bounds, then JSON, then every field, then what the fields say about each other.

Owns all checks that need the manifest alone: of its bytes where it is read, and of what they say for whoever reads or writes one. Invariant: a manifest that is admitted has canonical bytes, its own id, names that are one path
component each, and tensors whose slices tile them; nothing was allocated by a number that it contains.
"""

from __future__ import annotations

import re
from typing import Any, Final

from recovery.checkpoint import strict
from recovery.checkpoint.errors import CheckpointInvalid, UnknownFormat
from recovery.checkpoint.header import bytes_of, require_shape, require_tensor_name
from recovery.checkpoint.kinds import Kind, require_stored
from recovery.checkpoint.limits import Limits, at_most
from recovery.checkpoint.manifest import FILE, FORMAT, STATE, FileEntry, JournalPosition, Manifest, Slice, TensorEntry
from recovery.checkpoint.tiling import require_tiling

_KEYS: Final = frozenset(
    {
        "format",
        "kind",
        "id",
        "sequence",
        "step",
        "parent",
        "writers",
        "journal",
        "fingerprint",
        "files",
        "tensors",
        "schema",
        "totals",
    }
)
_FILE_KEYS: Final = frozenset({"name", "size", "blake3"})
_TENSOR_KEYS: Final = frozenset({"dtype", "shape", "slices"})
_SLICE_KEYS: Final = frozenset({"file", "key", "offset", "shape"})
_JOURNAL_KEYS: Final = frozenset({"run_id", "position", "digest"})
_COMPONENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{0,64}")
_RUN: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
COUNT_MAX: Final = 1 << 53
_DEPTH: Final = 6  # of a manifest with tensors: an offset, of a slice, of a tensor
_DEPTH_OF_FILES: Final = 3


def admit(data: bytes, limits: Limits, *, where: str) -> Manifest:
    """The manifest in `data`. Raises CheckpointInvalid, LimitExceeded, UnknownFormat or WrongKind."""
    found = strict.read(data, bytes_max=limits.manifest_bytes, depth_max=limits.depth, where=f"{where}, its manifest")
    if isinstance(found, dict) and type(found.get("format")) is int and found["format"] != FORMAT:
        raise UnknownFormat(where=where, found=found["format"], known=FORMAT)
    fields = strict.is_object(found, _KEYS, where=where)
    if type(fields["format"]) is not int:
        raise CheckpointInvalid(where=where, problem="format is no whole number", reason="fields")
    manifest = Manifest(
        kind=_kind(fields["kind"], where),
        sequence=fields["sequence"],
        step=fields["step"],
        parent=fields["parent"],
        writers=fields["writers"],
        files=_files(fields["files"], limits, where),
        tensors=_tensors(fields["tensors"], limits, where),
        journal=_journal(fields["journal"], where),
        fingerprint=fields["fingerprint"],
    )
    require_sound(manifest, limits, where=where)
    if manifest.to_bytes() != data:
        raise CheckpointInvalid(
            where=where, problem="its id, schema, totals or bytes are not those of its content", reason="identity"
        )
    return manifest


def require_sound(manifest: Manifest, limits: Limits, *, where: str) -> None:
    """Raise CheckpointInvalid, LimitExceeded or WrongKind unless `admit` would read it from its bytes.

    Asked of one that was read, and of one that is about to be written: its files, tensors and slices are taken for well formed one by one, since
    they were checked where they came from (a file, a receipt) or made of arrays that were.
    """
    if manifest.sound == limits:  # a save asks before it writes, and the validator again
        return
    require_stored(manifest.kind)
    _count(manifest.sequence, where, "sequence", least=1)
    _count(manifest.step, where, "step")
    if manifest.parent != "":
        _text(manifest.parent, where, "parent", _DIGEST)
    _count(manifest.writers, where, "writers", least=1)
    _text(manifest.fingerprint, where, "fingerprint", _FINGERPRINT)
    if manifest.journal is not None:
        _text(manifest.journal.run_id, where, "run_id", _RUN)
        _count(manifest.journal.position, where, "position")
        _text(manifest.journal.digest, where, "digest", _DIGEST)
    _agree(manifest, limits, where)
    at_most(len(manifest.to_bytes()), limits.manifest_bytes, where=f"{where}, its manifest", what="its size in bytes")
    at_most(_DEPTH if manifest.tensors else _DEPTH_OF_FILES, limits.depth, where=f"{where}, its manifest", what="its nesting")
    object.__setattr__(manifest, "sound", limits)


def require_component(name: Any, *, where: str) -> str:
    """`name` if it is one path component. Raises CheckpointInvalid(reason="path")."""
    return _text(name, where, "a file's name", _COMPONENT, reason="path")


def _agree(manifest: Manifest, limits: Limits, where: str) -> None:
    """What no single field can say."""
    names = [entry.name for entry in manifest.files]
    at_most(len(names), limits.files, where=where, what="the number of its files")
    at_most(len(manifest.tensors), limits.tensors, where=where, what="the number of its tensors")
    if len(set(names)) != len(names) or FILE in names or names.count(STATE) != 1:
        raise CheckpointInvalid(where=where, problem="its files are not one state and shards, each named once", reason="files")
    at_most(manifest.total_bytes, limits.total_bytes, where=where, what="the size of all files in bytes")
    shards = tuple((entry.name, entry.size) for entry in manifest.shards())
    if manifest.table.sound != (limits, shards):  # the same tensors for as long as a run saves them
        _require_tensors(manifest, limits, where)
        manifest.table.sound = (limits, shards)


def _require_tensors(manifest: Manifest, limits: Limits, where: str) -> None:
    """What the tensors and the sizes of the shards say together, within these limits."""
    _require_places(manifest, where)
    at_most(
        sum(len(tensor.slices) for tensor in manifest.tensors.values()), limits.slices, where=where, what="the number of its slices"
    )
    for name, tensor in manifest.tensors.items():
        at_most(len(tensor.shape), limits.rank, where=f"{where}, {name}", what="a rank")
        at_most(len(tensor.slices), limits.slices_of_one, where=f"{where}, {name}", what="the number of its slices")
        require_tiling(tensor.shape, [(part.offset, part.shape) for part in tensor.slices], where=f"{where}, {name}")


def _require_places(manifest: Manifest, where: str) -> None:
    """Each slice has a place of its own in a shard that is large enough: what is allocated for tensors is less than what the files hold."""
    left = {entry.name: entry.size for entry in manifest.files if entry.name != STATE}
    used: set[tuple[str, str]] = set()
    for name, tensor in manifest.tensors.items():
        for part in tensor.slices:
            if part.file not in left or (part.file, part.key) in used:
                raise CheckpointInvalid(
                    where=f"{where}, {name}", problem="a slice names no shard, or one that is taken", reason="slices"
                )
            used.add((part.file, part.key))
            left[part.file] -= bytes_of(tensor.dtype, part.shape, where=where)
            if left[part.file] < 0:
                raise CheckpointInvalid(where=f"{where}, {name}", problem="its slices are larger than the files", reason="size")


def _files(found: Any, limits: Limits, where: str) -> tuple[FileEntry, ...]:
    listed = _list(found, where, "files")
    at_most(len(listed), limits.files, where=where, what="the number of its files")
    return tuple(file_of(item, where) for item in listed)


def file_of(item: Any, where: str) -> FileEntry:
    """The entry of one file. Raises CheckpointInvalid."""
    fields = strict.is_object(item, _FILE_KEYS, where=where)
    name = require_component(fields["name"], where=where)
    size = _count(fields["size"], where, "size")
    return FileEntry(name, size, _text(fields["blake3"], where, "blake3", _DIGEST, reason="digest"))


def _tensors(found: Any, limits: Limits, where: str) -> dict[str, TensorEntry]:
    if not isinstance(found, dict):
        raise CheckpointInvalid(where=where, problem="tensors is not an object", reason="fields")
    at_most(len(found), limits.tensors, where=where, what="the number of its tensors")
    return {name: _tensor(require_tensor_name(name, where=where), item, limits, where) for name, item in found.items()}


def _tensor(name: str, item: Any, limits: Limits, where: str) -> TensorEntry:
    where = f"{where}, {name}"
    fields = strict.is_object(item, _TENSOR_KEYS, where=where)
    shape = require_shape(fields["shape"], limits.rank, where=where)
    at_most(bytes_of(fields["dtype"], shape, where=where), limits.total_bytes, where=where, what="its size in bytes")
    listed = _list(fields["slices"], where, "slices")
    at_most(len(listed), limits.slices_of_one, where=where, what="the number of its slices")
    return TensorEntry(fields["dtype"], shape, tuple(slice_of(part, limits, where) for part in listed))


def slice_of(item: Any, limits: Limits, where: str) -> Slice:
    """One slice of a tensor. Raises CheckpointInvalid, LimitExceeded."""
    fields = strict.is_object(item, _SLICE_KEYS, where=where)
    return Slice(
        file=require_component(fields["file"], where=where),
        key=require_tensor_name(fields["key"], where=where),
        offset=require_shape(fields["offset"], limits.rank, where=where),
        shape=require_shape(fields["shape"], limits.rank, where=where),
    )


def _journal(found: Any, where: str) -> JournalPosition | None:
    if found is None:
        return None
    fields = strict.is_object(found, _JOURNAL_KEYS, where=where)
    return JournalPosition(fields["run_id"], fields["position"], fields["digest"])


def _kind(found: Any, where: str) -> Kind:
    if not isinstance(found, str) or found not in [kind.value for kind in Kind]:
        raise CheckpointInvalid(where=where, problem=f"{str(found)[:20]!r} is no kind", reason="kind")
    return Kind(found)


def _list(found: Any, where: str, what: str) -> list[Any]:
    if not isinstance(found, list):
        raise CheckpointInvalid(where=where, problem=f"{what} is no list", reason="fields")
    return found


def _count(found: Any, where: str, what: str, *, least: int = 0) -> int:
    if type(found) is not int or not least <= found < COUNT_MAX:
        raise CheckpointInvalid(where=where, problem=f"{what} is no whole number from {least} to 2^53", reason="fields")
    return found


def _text(found: Any, where: str, what: str, rule: re.Pattern[str], *, reason: str = "fields") -> str:
    if not isinstance(found, str) or not rule.fullmatch(found):
        raise CheckpointInvalid(where=where, problem=f"{what} {str(found)[:40]!r} is not of the form {rule.pattern}", reason=reason)
    return found
