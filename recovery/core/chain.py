"""The digest chain of a journal: each row commits to everything before it.

Owns how a row's digest is computed and checked. Invariant: changing, dropping, adding or reordering any row changes every
later digest, and a row of one run never verifies in another, because the chain starts from namespace and run id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from recovery.core.ids import Epoch, digest_bytes
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
    return Row(seq, kind, step, body, epoch, token, blake2b(b"".join(parts), digest_size=32).hexdigest())


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
    whole = text.encode()
    return _length(whole) + whole


SHORT: Final = 4096
_LENGTHS: Final = [size.to_bytes(8, "big") for size in range(SHORT)]
"""Of what is short, as nearly every body is: made once."""

_OF_A_DIGEST: Final = _length(bytes(32))
_KINDS: Final = {kind: _part(kind) for kind in ("intent", "settled")}  # what every effect writes


def broken_at(namespace: str, run_id: str, rows: Sequence[Row], head: int, head_digest: str) -> tuple[int, str] | None:
    """The first (sequence number, field) that does not verify, or None. `head` is what the run row claims."""
    first = genesis(namespace, run_id)
    previous = bytes.fromhex(first)
    kinds: dict[str, bytes] = {}
    epoch, token, by = None, "", b""
    for expected_seq, row in enumerate(rows, start=1):
        if row.seq != expected_seq:
            return expected_seq, "sequence number"
        if (of := kinds.get(row.kind)) is None:
            of = kinds[row.kind] = _part(row.kind)
        if row.epoch is not epoch or row.token != token:  # mostly those of the row before
            epoch, token = row.epoch, row.token
            by = signature(epoch, token)
        number, at, text = b"%d" % expected_seq, row.step.encode(), row.body.encode()
        size = len(text)
        length = _LENGTHS[size] if size < SHORT else _length(text)
        parts = (_OF_A_DIGEST, previous, _LENGTHS[len(number)], number, of, _length(at), at, length, text, by)
        if blake2b(b"".join(parts), digest_size=32).hexdigest() != row.digest:
            return expected_seq, "body"
        previous = bytes.fromhex(row.digest)
    if len(rows) != head:
        return len(rows) + 1, "head"
    return None if head_digest == (rows[-1].digest if rows else first) else (head, "head digest")
