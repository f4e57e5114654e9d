"""The digest chain of a journal: each row commits to everything before it.

Owns how a row's digest is computed and checked. Invariant: changing, dropping, adding or reordering any row changes every
later digest, and a row of one run never verifies in another, because the chain starts from namespace and run id.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    digest = digest_bytes(
        bytes.fromhex(previous), str(seq).encode(), kind.encode(), step.encode(), body.encode(), str(epoch).encode(), token.encode()
    )
    return Row(seq, kind, step, body, epoch, token, digest)


def broken_at(namespace: str, run_id: str, rows: list[Row], head: int, head_digest: str) -> tuple[int, str] | None:
    """The first (sequence number, field) that does not verify, or None. `head` is what the run row claims."""
    previous = genesis(namespace, run_id)
    for expected_seq, row in enumerate(rows, start=1):
        if row.seq != expected_seq:
            return expected_seq, "sequence number"
        if chained(previous, row.seq, row.kind, row.step, row.body, row.epoch, row.token).digest != row.digest:
            return row.seq, "body"
        previous = row.digest
    if len(rows) != head:
        return len(rows) + 1, "head"
    return None if previous == head_digest else (head, "head digest")
