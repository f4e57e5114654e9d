"""The digest chain of a journal: each row commits to everything before it.

Owns how a row's digest is computed, and checked as rows come. Invariants: changing, dropping, adding or reordering any row changes every
later digest, and a row of one run never verifies in another, because the chain starts from namespace and run id; epochs only rise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from recovery.core.ids import BLAKE2B_256, Epoch, digest_bytes, prefixed
from recovery.core.values import value


@value(frozen=True, slots=True)
class Row:
    """One journal row as stored. `body` is the exact JSON text that was hashed; seq counts from 1 without holes."""

    seq: int
    kind: str
    step: str
    body: str
    epoch: Epoch
    token: str  # one per append, kept over retries: how a writer recognises its own commit after a lost acknowledgement
    digest: str


def genesis(namespace: str, run_id: str) -> str:
    """The digest that the first row is chained to."""
    return digest_bytes(b"recovery-journal-1", namespace.encode(), run_id.encode())


def chained(previous: str, seq: int, kind: str, step: str, body: str, epoch: Epoch, token: str, signed: bytes = b"") -> Row:
    """The row that follows `previous`; its digest is `digest_bytes` of its parts, in one go. signed: `signature(epoch, token)`, where somebody writes several rows under them."""
    number, at, text, lengths = b"%d" % seq, step.encode(), body.encode(), _LENGTHS
    size, long = len(text), len(at)
    parts = (
        _OF_A_DIGEST, bytes.fromhex(previous), lengths[len(number)], number, _KINDS.get(kind) or _part(kind),
        lengths[long] if long < SHORT else _length(at), at, lengths[size] if size < SHORT else _length(text), text,
        signed or signature(epoch, token),
    )  # fmt: skip
    digest = BLAKE2B_256.copy()
    digest.update(b"".join(parts))
    return Row(seq, kind, step, body, epoch, token, digest.hexdigest())


def signature(epoch: Epoch, token: str) -> bytes:
    """Who wrote a row and in which append, as its digest takes it in: the same for all rows of one append."""
    once = token.encode()
    return b"".join((_by(epoch.incarnation, epoch.n), _length(once), once))


@lru_cache(maxsize=256)
def _by(incarnation: int, n: int) -> bytes:
    """Asked at each append, of few epochs."""
    return _part(f"{incarnation}.{n}")


def _length(part: bytes) -> bytes:
    size = len(part)
    return _LENGTHS[size] if size < SHORT else size.to_bytes(8, "big")


def _part(text: str) -> bytes:
    return prefixed(text.encode())


SHORT: Final = 4096
_LENGTHS: Final = [size.to_bytes(8, "big") for size in range(SHORT)]
"""Of what is short, as nearly every body is: made once."""

_OF_A_DIGEST: Final = _length(bytes(32))
_KINDS: Final = {kind: _part(kind) for kind in ("intent", "settled")}  # what every effect writes


Raw: TypeAlias = Sequence[Any]
"""A row as it comes out of a store, of which nothing is known: sequence number, kind, step, body, the two numbers of its epoch, token, digest."""


def raw(row: Row) -> Raw:
    """A row as a store would give it."""
    return row.seq, row.kind, row.step, row.body, row.epoch.incarnation, row.epoch.n, row.token, row.digest


def row_of(found: Raw) -> Row:
    """A row that a store gave, whatever it holds."""
    seq, kind, step, body, incarnation, n, token, digest = found
    return Row(seq, kind, step, body, Epoch(incarnation, n), token, digest)


class Chain:
    """How far the rows of one run are verified, which come in portions. Invariant: behind a row that does not verify nothing is looked at.

    broken: the sequence number and the field of that row; None while all are as they were written. length: how many are verified; first, last: the epochs
    of the first and the last of them."""

    __slots__ = ("_by", "_digest", "_kinds", "_token", "broken", "first", "last", "length")

    def __init__(self, namespace: str, run_id: str) -> None:
        self.broken: tuple[int, str] | None = None
        self.length = 0
        self.first = self.last = Epoch(-1, -1)  # below all that there are
        self._digest = bytes.fromhex(genesis(namespace, run_id))
        self._token, self._by = "", b""
        self._kinds: dict[str, bytes] = {}

    def follow(self, rows: Sequence[Raw]) -> bool:
        """Verify the rows that come next. Whether they, and all before them, are as they were written."""
        if self.broken is None:
            self.broken = self._broken(rows)
        return self.broken is None

    def end(self, head: int, digest: str) -> tuple[int, str] | None:
        """The first (sequence number, field) that does not verify, once all rows have come; head and digest: of the last one, as the run's own row says."""
        if self.broken is None and self.length != head:
            return self.length + 1, "head"
        return self.broken or (None if digest == self._digest.hex() else (head, "head digest"))

    def _broken(self, rows: Sequence[Raw]) -> tuple[int, str] | None:
        expected, previous, token, by, kinds = self.length, self._digest, self._token, self._by, self._kinds
        incarnation_before, n_before, fell, fresh = self.last.incarnation, self.last.n, False, BLAKE2B_256.copy
        try:
            for seq, kind, step, body, incarnation, n, token_now, digest in rows:
                expected += 1
                if seq != expected:
                    return expected, "sequence number"
                if token_now != token or n != n_before or incarnation != incarnation_before:  # mostly those of the row before
                    by = signature(Epoch(incarnation, n), token_now)
                    fell = (incarnation, n) < (incarnation_before, n_before)
                    token, incarnation_before, n_before = token_now, incarnation, n
                if (of := kinds.get(kind)) is None:
                    of = kinds[kind] = _part(kind)
                number, at, text = b"%d" % expected, step.encode(), body.encode()
                size = len(text)
                length = _LENGTHS[size] if size < SHORT else _length(text)
                parts = (_OF_A_DIGEST, previous, _LENGTHS[len(number)], number, of, _length(at), at, length, text, by)
                taken = fresh()
                taken.update(b"".join(parts))
                previous = taken.digest()
                if previous.hex() != digest:
                    return expected, "body" if type(digest) is str else "a text"
                if fell:
                    return expected, "epoch"
        except AttributeError:  # what is no text has no `encode`
            return expected, "a text"
        except TypeError:  # no numbers: another epoch than the one that the digest was made of
            return expected, "body"
        if rows and not self.length:
            self.first = Epoch(rows[0][4], rows[0][5])
        self.length, self._digest, self._token, self._by = expected, previous, token, by
        self.last = Epoch(incarnation_before, n_before)
        return None
