"""Inference state: keys and values of one token sequence, kept for whoever asks for exactly that sequence again.

Owns what makes two entries the same one, and what a cache may forget. Must not know training. Invariant: a hit has the identity and the tokens that
were asked for, to the last one, and every byte of it was verified; anything else is a miss. Nothing is ever reused in part, and losing an
entry costs a computation and nothing else, so nothing is synced: after a loss of power the digests tell what is left.

An entry is a directory, `IDENTITY/TOKENS`, in the same format as a checkpoint of the kind `inference_kv`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from blake3 import blake3

from recovery.checkpoint import state as states
from recovery.checkpoint import strict
from recovery.checkpoint.commit import Attempt
from recovery.checkpoint.draft import Draft
from recovery.checkpoint.errors import CheckpointError, CheckpointInvalid
from recovery.checkpoint.files import Disk, LocalDisk, remove_tree
from recovery.checkpoint.header import require_tensor_name
from recovery.checkpoint.kinds import Kind
from recovery.checkpoint.layout import TEMPORARY
from recovery.checkpoint.limits import Limits
from recovery.checkpoint.manifest import FORMAT, digest
from recovery.checkpoint.outline import outlined
from recovery.checkpoint.reading import Directory
from recovery.checkpoint.shards import Array
from recovery.checkpoint.validating import validate
from recovery.crashpoints import around

GIB: Final = 1 << 30
TRASH: Final = ".trash-"
ABANDONED_SECONDS: Final = 3600.0
"""What somebody was writing or removing so long ago, by the file system's own time, is nobody's any more."""

_THERE: Final = "there already"
_TOO_LARGE: Final = "larger than the capacity"

_TOKENS: Final = "tokens"
_VALUES: Final = "kv/"
_DOMAIN: Final = b"recovery-kv-%d\n" % FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What keys and values depend on beside the tokens. Two that differ in any field share nothing.

    model, adapter: digests of their weights ("" for no adapter). dtype: of the keys and values, as the model computes them. layout: the order of
    axes and heads, in the words of the program that writes it. page_tokens: how many tokens a page has; entries are whole pages.
    """

    model: str
    dtype: str
    layout: str
    page_tokens: int
    adapter: str = ""

    def __post_init__(self) -> None:
        if type(self.page_tokens) is not int or self.page_tokens < 1:
            raise _refused("page_tokens", "it is no number of tokens from 1 on")
        for field in ("model", "adapter", "dtype", "layout"):
            value = getattr(self, field)
            if type(value) is not str or not (value or field == "adapter"):
                raise _refused(field, "it is not stated, so that two different ones would be taken for the same")
            if not value.isprintable():
                raise _refused(field, "it has characters that cannot be printed")

    def document(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("model", "adapter", "dtype", "layout", "page_tokens")}

    @property
    def name(self) -> str:
        """The digest of all that makes entries interchangeable: two identities share entries if and only if it is the same."""
        return digest(_DOMAIN + strict.canonical(self.document()))


@dataclass(frozen=True, slots=True)
class Hit:
    """A verified entry: `arrays` by name, fresh and writable, for the first `tokens` tokens of what was asked for."""

    tokens: int
    arrays: Mapping[str, Array]


class _Unsynced(LocalDisk):
    """A disk for what may be lost."""

    def sync(self, file: int) -> None: ...

    def sync_directory(self, path: Path) -> None: ...


class KVStore:
    """A cache of inference state under `path`, for any number of processes. Making one touches nothing.

    capacity_bytes: what is kept at most; beyond it, what was asked for longest ago goes first. limits: what is read at most; give all who share a
    path the same ones, since what is beyond them is removed as damaged.
    hits, misses and refusals count what this object met, the latter two by reason.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        capacity_bytes: int = 64 * GIB,
        limits: Limits | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.path = Path(path)
        self.capacity_bytes = capacity_bytes
        self.limits = limits or Limits()
        self._disk: Disk = disk or _Unsynced()
        self.hits = 0
        self.misses: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def get(self, identity: Identity, tokens: Sequence[int]) -> Hit | None:
        """The entry for exactly these tokens, or None. Never raises because of what is on the disk."""
        wanted = _as_tokens(tokens)
        *_, (_, address) = _addresses(wanted, len(wanted) or 1)
        return self._read(identity, address, wanted)

    def longest(self, identity: Identity, tokens: Sequence[int]) -> Hit | None:
        """The entry for the longest beginning of these tokens that is kept, or None. That entry is used as a whole, or not at all."""
        wanted = _as_tokens(tokens)
        try:
            kept = {name for name, is_directory in self._disk.names(self.path / identity.name) if is_directory}
        except OSError:
            kept = set()
        for count, address in reversed([each for each in _addresses(wanted, identity.page_tokens) if each[1] in kept]):
            if (hit := self._read(identity, address, wanted[:count])) is not None:
                return hit
        if not kept:
            self.misses["absent"] += 1
        return None

    def put(self, identity: Identity, tokens: Sequence[int], arrays: Mapping[str, Array]) -> bool:
        """Keep an entry. False: it was there already, is larger than the capacity, or the disk refused; `refusals` says which.

        Raises CheckpointInvalid for what can be no entry: a broken page, a number that is not finite, a dtype that has no form.
        """
        given = _as_tokens(tokens)
        if not len(given) or len(given) % identity.page_tokens:
            raise _refused("tokens", f"{len(given)} tokens are not whole pages of {identity.page_tokens}")
        held = {_TOKENS: given} | {_VALUES + require_tensor_name(name, where="arrays"): array for name, array in arrays.items()}
        *_, (_, address) = _addresses(given, len(given))
        if (self.path / identity.name / address).is_dir():
            return self._refuse(_THERE)
        if sum(array.nbytes for array in held.values()) > self.capacity_bytes:
            return self._refuse(_TOO_LARGE)
        try:
            return self._write(identity, address, held)
        except OSError as error:
            if error.errno in {errno.EEXIST, errno.ENOTEMPTY}:  # somebody kept the same one meanwhile
                return self._refuse(_THERE)
            return self._refuse(error.strerror or type(error).__name__)

    def _refuse(self, reason: str) -> bool:
        self.refusals[reason] += 1
        return False

    def _write(self, identity: Identity, address: str, held: Mapping[str, Array]) -> bool:
        parent = self.path / identity.name
        parent.mkdir(parents=True, exist_ok=True)
        attempt = Attempt(self._disk, parent, 1, secrets.token_hex(8))
        try:
            attempt.begin()
            state = states.sealed({"identity": identity.document()}, self.limits)
            draft = Draft(Kind.INFERENCE_KV, 0, None, "", outlined(held, self.limits), held, state)
            manifest, export, _ = draft.write(attempt, self.limits, 1, "", streams=1)
            validate(export, self.limits)
            if manifest.total_bytes + len(manifest.to_bytes()) > self.capacity_bytes:
                return self._refuse(_TOO_LARGE)  # kept, it would drive out everything else and then itself
            attempt.write_manifest(manifest)
            attempt.commit(manifest, name=address)
        finally:
            attempt.abandon()
        self._make_room(parent / address)
        return True

    def _read(self, identity: Identity, address: str, tokens: Array) -> Hit | None:
        path = self.path / identity.name / address
        try:
            found = validate(Directory(self._disk, path, self.limits), self.limits, kind=Kind.INFERENCE_KV)
            self._require_same(found.state, found.arrays, identity, tokens)
        except (CheckpointError, OSError) as error:
            self._missed(path, error)
            return None
        self.hits += 1
        with contextlib.suppress(OSError):  # somebody removed it meanwhile; what was read is whole all the same
            os.utime(path)
        values = {name.removeprefix(_VALUES): array for name, array in found.arrays.items() if name != _TOKENS}
        return Hit(len(tokens), values)

    def _missed(self, path: Path, error: CheckpointError | OSError) -> None:
        if not path.is_dir():
            self.misses["absent"] += 1
            return
        self.misses[error.fields.get("reason", type(error).__name__) if isinstance(error, CheckpointError) else "unreadable"] += 1
        if isinstance(error, CheckpointError):  # it will not be a hit for anybody: another version has another address
            self._remove(path)

    def _require_same(self, state: Any, arrays: Mapping[str, Array], identity: Identity, tokens: Array) -> None:
        """The address is a digest of these; the entry says them itself, so that a file in the wrong place is a miss."""
        if not isinstance(state, Mapping) or state.get("identity") != identity.document():
            raise _refused("identity", "it is that of another model, adapter, dtype, layout or page size", reason="identity")
        if _TOKENS not in arrays or not np.array_equal(arrays[_TOKENS], tokens):
            raise _refused("tokens", "they are those of another sequence", reason="tokens")

    # -- forgetting ------------------------------------------------------------------------------------------------

    def _make_room(self, new: Path) -> None:
        """Remove what was asked for longest ago until the rest fits, and what somebody left unfinished.

        The present is when the file system wrote the new entry. What is dated later was so by a clock that is wrong, or has been set back since.
        """
        now = new.stat().st_mtime
        entries = [(min(asked, now), path == new, size, path) for path, asked, size in self._everything()]
        left = sum(size for _, _, size, path in entries if not path.name.startswith("."))
        for asked, _, size, path in sorted(entries):
            if path.name.startswith("."):
                if now - asked > ABANDONED_SECONDS:
                    self._remove(path)
            elif left > self.capacity_bytes:
                self._remove(path)
                left -= size

    def _everything(self) -> Iterator[tuple[Path, float, int]]:
        """(entry, when it was last asked for, its size in bytes), whoever else removes entries meanwhile."""
        for identity in _directories(self.path):
            for entry in _directories(identity):
                with contextlib.suppress(OSError):
                    size = sum(file.stat().st_size for file in entry.iterdir())
                    yield entry, entry.stat().st_mtime, size

    def _remove(self, path: Path) -> None:
        """Rename, then delete, so that nobody meets half an entry under its name. Somebody else may be quicker."""
        trash = path.parent / f"{TRASH}{secrets.token_hex(8)}"
        with contextlib.suppress(OSError), around("kv.forget"):
            if not path.name.startswith((TEMPORARY, TRASH)):
                self._disk.rename(path, trash)
                path = trash
            remove_tree(self._disk, path)


def _directories(path: Path) -> list[Path]:
    try:
        return sorted(each for each in path.iterdir() if each.is_dir() and not each.is_symlink())
    except OSError:
        return []


def _as_tokens(tokens: Sequence[int]) -> Array:
    """Exact whole numbers. Raises CheckpointInvalid."""
    try:
        given = np.asarray(tokens)
    except ValueError:  # lists of unequal lengths
        raise _refused("tokens", "they are no sequence of whole numbers") from None
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise _refused("tokens", "they are no sequence of whole numbers")
    if given.dtype == np.uint64 and given.size and given.max() > np.iinfo(np.int64).max:
        raise _refused("tokens", "a number has more than 63 bits")
    return given.astype("<i8")


def _addresses(tokens: Array, page: int) -> Iterator[tuple[int, str]]:
    """(count, address) of each beginning that is whole pages, shortest first; the address is the digest of those tokens."""
    hashed = blake3(_DOMAIN)
    for end in range(page, len(tokens) + 1, page):
        hashed.update(tokens[end - page : end].tobytes())
        yield end, hashed.hexdigest()
    if not len(tokens):
        yield 0, hashed.hexdigest()


def _refused(where: str, problem: str, *, reason: str = "inference") -> CheckpointInvalid:
    return CheckpointInvalid(where=f"inference state, {where}", problem=problem, reason=reason)
