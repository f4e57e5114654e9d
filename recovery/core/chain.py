"""The digest chain of a journal: each row commits to everything before it.

Owns how a row's digest is computed and checked. Invariant: changing, dropping, adding or reordering any row changes every
later digest, and a row of one run never verifies in another, because the chain starts from namespace and run id.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """The row that follows `previous`. signed: `signature(epoch, token)`, where somebody writes several rows under them."""
    return Row(seq, kind, step, body, epoch, token, _digest(previous, seq, kind, step, body, signed or signature(epoch, token)))


def signature(epoch: Epoch, token: str) -> bytes:
    """Who wrote a row and in which append, as its digest takes it in: the same for all rows of one append."""
    return _part(f"{epoch.incarnation}.{epoch.n}") + _part(token)


def _digest(previous: str, seq: int, kind: str, step: str, body: str, signed: bytes) -> str:
    """`digest_bytes` of these parts, in one go."""
    number, text = b"%d" % seq, body.encode()
    of = _KINDS.get(kind) or _part(kind)
    parts = (_OF_A_DIGEST, bytes.fromhex(previous), _LENGTHS[len(number)], number, of, _part(step), _length(text), text, signed)
    return blake2b(b"".join(parts), digest_size=32).hexdigest()


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
