"""Assembling: a command that is asked for by its name is the one that all of them would have."""

from __future__ import annotations

import pytest

from recovery.cli import assembled

WHOLE = assembled()


@pytest.mark.parametrize("name", sorted(WHOLE.commands))
def test_a_command_that_is_assembled_alone_is_the_same(name: str) -> None:
    alone = assembled(name)
    assert list(alone.commands) == [name]
    assert [each.name for each in alone.params] == [each.name for each in WHOLE.params]
    here, there = alone.commands[name], WHOLE.commands[name]
    assert here.help == there.help
    assert [(each.name, each.opts) for each in here.params] == [(each.name, each.opts) for each in there.params]
    assert sorted(getattr(here, "commands", ())) == sorted(getattr(there, "commands", ()))


@pytest.mark.parametrize("asked", ["", "shwo", "--help", "incident-7"])
def test_all_are_assembled_for_whoever_asks_for_none_of_them(asked: str) -> None:
    assert list(assembled(asked).commands) == list(WHOLE.commands)
