"""The digest chain of a journal: each row commits to everything before it.

Owns how a row's digest is computed and checked. Invariant: changing, dropping, adding or reordering any row changes every
later digest, and a row of one run never verifies in another, because the chain starts from namespace and run id.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from recovery.core.ids import Epoch, digest_bytes


@dataclass(frozen=True, slots=True)
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


def chained(previous: str, seq: int, kind: str, step: str, body: str, epoch: Epoch, token: str) -> Row:
    """The row that follows `previous`."""
    return Row(seq, kind, step, body, epoch, token, _digest(previous, seq, kind, step, body, epoch, token))


def _digest(previous: str, seq: int, kind: str, step: str, body: str, epoch: Epoch, token: str) -> str:
    """`digest_bytes` of these parts, in one go: every row that is written or read passes here."""
    number, of, at, text = str(seq).encode(), kind.encode(), step.encode(), body.encode()
    by, once = str(epoch).encode(), token.encode()
    length = _length
    whole = (
        _OF_A_DIGEST, bytes.fromhex(previous), length(number), number, length(of), of, length(at), at, length(text), text, length(by), by,
        length(once), once,
    )  # fmt: skip
    return blake2b(b"".join(whole), digest_size=32).hexdigest()


def _length(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big")


_OF_A_DIGEST: Final = _length(bytes(32))


def broken_at(namespace: str, run_id: str, rows: list[Row], head: int, head_digest: str) -> tuple[int, str] | None:
    """The first (sequence number, field) that does not verify, or None. `head` is what the run row claims."""
    previous = genesis(namespace, run_id)
    for expected_seq, row in enumerate(rows, start=1):
        if row.seq != expected_seq:
            return expected_seq, "sequence number"
        if _digest(previous, row.seq, row.kind, row.step, row.body, row.epoch, row.token) != row.digest:
            return row.seq, "body"
        previous = row.digest
    if len(rows) != head:
        return len(rows) + 1, "head"
    return None if previous == head_digest else (head, "head digest")
