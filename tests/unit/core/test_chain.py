"""The digest chain: any single change is found, and where."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.chain import SHORT, Chain, Row, chained, genesis, raw
from recovery.core.ids import Epoch, digest_bytes

NAMESPACE = "n"
RUN = "run-1"


def rows_of(bodies: list[str], namespace: str = NAMESPACE, run_id: str = RUN) -> list[Row]:
    rows, previous = [], genesis(namespace, run_id)
    for seq, body in enumerate(bodies, start=1):
        rows.append(chained(previous, seq, "decision", f"s#{seq}", body, Epoch(0, 1), f"t{seq}"))
        previous = rows[-1].digest
    return rows


def check(rows: list[Row], head: int, head_digest: str) -> tuple[int, str] | None:
    """What is found does not depend on the portions in which the rows come."""
    found = {_check(rows, size, head, head_digest) for size in range(1, len(rows) + 2)}
    assert len(found) == 1
    return found.pop()


def _check(rows: list[Row], size: int, head: int, head_digest: str) -> tuple[int, str] | None:
    chain = Chain(NAMESPACE, RUN)
    for first in range(0, len(rows), size):
        verifies = chain.follow([raw(row) for row in rows[first : first + size]])
        assert verifies == (chain.broken is None)
    return chain.end(head, head_digest)


BODIES = st.lists(st.text(max_size=4), min_size=1, max_size=6)


@given(BODIES)
def test_an_untouched_chain_verifies(bodies: list[str]) -> None:
    rows = rows_of(bodies)
    assert check(rows, len(rows), rows[-1].digest) is None


@given(st.text(), st.text(), st.text(), st.text(min_size=1))
def test_a_rows_digest_is_that_of_its_parts(kind: str, step: str, body: str, token: str) -> None:
    """The format: it is written in databases, so it is never another one."""
    previous = genesis(NAMESPACE, RUN)
    parts = ("7", kind, step, body, "2.3", token)
    whole = digest_bytes(bytes.fromhex(previous), *(part.encode() for part in parts))
    assert chained(previous, 7, kind, step, body, Epoch(2, 3), token).digest == whole


@pytest.mark.parametrize("size", [SHORT - 1, SHORT, SHORT + 1, 100_000])
def test_bodies_of_every_length_verify(size: int) -> None:
    rows = rows_of(["x" * size, "", "ä" * size, "y"])
    assert check(rows, 4, rows[-1].digest) is None
    assert check([*rows[:2], replace(rows[2], body="ä" * size + "z"), rows[3]], 4, rows[-1].digest) == (3, "body")


def test_an_empty_chain_verifies() -> None:
    assert check([], 0, genesis(NAMESPACE, RUN)) is None


@given(BODIES, st.data())
def test_any_single_change_is_found_at_its_row(bodies: list[str], data: st.DataObject) -> None:
    rows = rows_of(bodies)
    index = data.draw(st.integers(0, len(rows) - 1))
    row = rows[index]
    other = data.draw(
        st.sampled_from(
            [
                replace(row, kind="intent"),
                replace(row, step=row.step + "x"),
                replace(row, body=row.body + " "),
                replace(row, epoch=Epoch(row.epoch.incarnation, row.epoch.n + 1)),
                replace(row, epoch=Epoch(row.epoch.incarnation + 1, row.epoch.n)),
                replace(row, token=row.token + "x"),
                replace(row, digest=f"{int(row.digest[0], 16) ^ 1:x}{row.digest[1:]}"),
            ]
        )
    )
    changed = [*rows[:index], other, *rows[index + 1 :]]
    assert check(changed, len(rows), rows[-1].digest) == (row.seq, "body")


@given(BODIES, st.data())
def test_a_dropped_row_is_found(bodies: list[str], data: st.DataObject) -> None:
    rows = rows_of(bodies)
    index = data.draw(st.integers(0, len(rows) - 1))
    found = check([*rows[:index], *rows[index + 1 :]], len(rows), rows[-1].digest)
    assert found == ((index + 1, "sequence number") if index + 1 < len(rows) else (len(rows), "head"))


@given(BODIES, st.data())
def test_a_dropped_row_with_renumbered_followers_is_found(bodies: list[str], data: st.DataObject) -> None:
    rows = rows_of(bodies)
    index = data.draw(st.integers(0, len(rows) - 1))
    left = [replace(row, seq=seq) for seq, row in enumerate([*rows[:index], *rows[index + 1 :]], start=1)]
    assert check(left, len(left), rows[-1].digest) is not None


@given(BODIES, st.data())
def test_a_row_written_twice_is_found(bodies: list[str], data: st.DataObject) -> None:
    rows = rows_of(bodies)
    index = data.draw(st.integers(0, len(rows) - 1))
    assert check([*rows[: index + 1], rows[index], *rows[index + 1 :]], len(rows), rows[-1].digest) == (
        index + 2,
        "sequence number",
    )


def test_two_exchanged_rows_are_found() -> None:
    rows = rows_of(["a", "b"])
    exchanged = [replace(rows[1], seq=1), replace(rows[0], seq=2)]
    assert check(exchanged, 2, rows[-1].digest) == (1, "body")


def test_a_row_more_or_less_than_the_head_claims_is_found() -> None:
    rows = rows_of(["a", "b", "c"])
    assert check(rows, 2, rows[1].digest) == (4, "head")
    assert check(rows[:2], 3, rows[2].digest) == (3, "head")


def test_another_head_digest_is_found() -> None:
    rows = rows_of(["a"])
    assert check(rows, 1, genesis(NAMESPACE, RUN)) == (1, "head digest")


@pytest.mark.parametrize(("namespace", "run_id"), [("m", RUN), (NAMESPACE, "run-2")])
def test_rows_of_another_run_or_database_never_verify(namespace: str, run_id: str) -> None:
    rows = rows_of(["a"], namespace, run_id)
    assert check(rows, 1, rows[0].digest) == (1, "body")


def test_what_is_no_text_is_found_at_its_row() -> None:
    rows = rows_of(["a", "b", "c"])
    for name in ("kind", "step", "body", "token", "digest"):
        for other in (b"b", 1, None):
            changed = [rows[0], replace(rows[1], **{name: other}), rows[2]]
            assert check(changed, 3, rows[-1].digest) == (2, "a text")


def test_an_epoch_that_is_no_number_is_found_at_its_row() -> None:
    rows = rows_of(["a", "b"])
    assert check([rows[0], replace(rows[1], epoch=Epoch("x", 1))], 2, rows[-1].digest) == (2, "body")  # type: ignore[arg-type]


def test_a_row_of_an_epoch_below_that_of_the_row_before_it_is_found_although_its_digest_is_right() -> None:
    """Whoever wrote it had lost the run: no fence lets that through."""
    previous, rows = genesis(NAMESPACE, RUN), []
    for seq, epoch in enumerate([Epoch(0, 1), Epoch(0, 3), Epoch(1, 1), Epoch(0, 4)], start=1):
        rows.append(chained(previous, seq, "decision", "s", "{}", epoch, "t"))
        previous = rows[-1].digest
    assert check(rows[:3], 3, rows[2].digest) is None
    assert check(rows, 4, rows[3].digest) == (4, "epoch")


def test_what_is_said_of_a_chain_is_what_its_rows_say() -> None:
    previous, chain = genesis(NAMESPACE, RUN), Chain(NAMESPACE, RUN)
    for seq, epoch in enumerate([Epoch(0, 1), Epoch(0, 1), Epoch(1, 2)], start=1):
        row = chained(previous, seq, "decision", "s", "{}", epoch, "t")
        previous = row.digest
        assert chain.follow([raw(row)])
    assert (chain.first, chain.last, chain.length) == (Epoch(0, 1), Epoch(1, 2), 3)
