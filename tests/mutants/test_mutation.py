"""Mutants are what they say: each kind of change is made, each changes one place, and each accepted survivor exists and has a reason."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.accepted import reasons
from tests.mutants.mutation import TARGETS, mutants

ALL = {mutant.name: mutant for module in TARGETS for mutant in mutants(module)}


@pytest.mark.parametrize(
    "name",
    [
        "timing.Timing.quiet: at_us > self.quiet_at_us  =>  at_us >= self.quiet_at_us",  # a comparison of section 2, by one
        "timing.Timing.quiet: at_us > self.quiet_at_us  =>  at_us <= self.quiet_at_us",  # and negated
        "timing.possibly_sent: AnswerKind.NOT_SENT not in told[attempt.number]  =>  AnswerKind.NOT_SENT in told[attempt.number]",
        "rows_open.<module>: facts.resend is Resend.LICENSED and facts.wanted and facts.attempts_left  =>  facts.wanted",
        "rows_proven.<module>: row 15 Action.REJECT",
    ],
)
def test_this_change_is_among_them(name: str) -> None:
    assert any(known.startswith(name) for known in ALL)


def test_every_row_is_flipped_and_dropped() -> None:
    for number in range(1, 47):
        changes = [name for name in ALL if f": row {number} " in name]
        assert len(changes) == 2, number


def test_a_mutant_changes_one_place() -> None:
    for name in [name for name in ALL if name.startswith("timing.")][:40]:
        mutant = ALL[name]
        shipped = ast.unparse(type(mutant)(mutant.module, "nothing changed").tree).splitlines()
        changed = ast.unparse(mutant.tree).splitlines()
        assert sum(a != b for a, b in zip(shipped, changed, strict=True)) == 1, name


def test_every_accepted_survivor_exists_and_has_a_reason() -> None:
    assert [name for name in reasons() if name not in ALL] == []


def test_an_accepted_survivor_without_a_reason_is_refused() -> None:
    assert reasons("# a comment\n\nwhere: a  =>  b\n    because\n    of this\n") == {"where: a  =>  b": "because of this"}
    with pytest.raises(ValueError, match="no reason"):
        reasons("where: a  =>  b\n")
