"""Every durable write and every request that leaves lies between two registered crash points, and every registered one is in use."""

from __future__ import annotations

import ast

import pytest

from recovery.core.entries import (
    Answered,
    AnswerKind,
    Attempt,
    Decision,
    Entry,
    Intent,
    Observation,
    OutcomeKind,
    Override,
    Settled,
    Source,
    Status,
    Verb,
    Verdict,
)
from recovery.core.operations import Append, bracket_of
from recovery.crashpoints import BRACKETS
from tests.architecture.brackets import misnamed, names, scanned, trees, unbracketed


def one_of_each() -> list[Entry]:
    """Every entry that is appended to a run that is open."""
    attempt = Attempt(step="s#1", number=1, purpose="send", sent_at_us=0, send_until_us=1, epoch="0.1")
    answer = Answered(kind=AnswerKind.UNREACHABLE)
    return [
        Decision(step="d#1", fingerprint="", value=1, at_us=0),
        Intent(
            step="s#1",
            effect="e",
            environment="e",
            scope="",
            key="k",
            fingerprint="f",
            arguments={},
            contract="c",
            timeout_us=1,
            at_us=0,
        ),
        attempt,
        Observation(step="s#1", source=Source.REPLY, asked_at_us=0, observed_at_us=0, answer=answer),
        Verdict(step="s#1", row="r", action="park", reason="r", at_us=0),
        Override(step="", verb=Verb.HOLD, by="ann", at_us=0),
        Settled(step="s#1", outcome=OutcomeKind.APPLIED, at_us=0),
        Settled(step="", outcome=OutcomeKind.APPLIED, at_us=0),
    ]


def test_every_durable_write_and_every_request_is_bracketed() -> None:
    assert unbracketed(trees()) == []


def test_brackets_have_registered_names() -> None:
    assert names(trees().values())[1] == []
    assert {bracket_of(Append((entry,), Status.RUNNING)) for entry in one_of_each()} <= set(BRACKETS)


def test_every_registered_bracket_is_used() -> None:
    used = names(trees().values())[0] | {bracket_of(Append((entry,), Status.RUNNING)) for entry in one_of_each()}
    assert set(BRACKETS) - used == set()


def test_the_journal_is_called_the_journal() -> None:
    """Or the scan would not know it."""
    assert misnamed(trees().values()) == []


def test_there_is_something_to_scan() -> None:
    assert {path.parent.name for path in scanned()} >= {"drivers", "engine", "storage"}
    assert any(path.name == "reconciler.py" for path in scanned())


@pytest.mark.parametrize(
    "planted",
    [
        "def go(journal):\n    journal.append([1])",
        "async def go(self):\n    await to_thread(self._journal.claim, row)",
        "async def go():\n    await Use(lambda journal: journal.open_run(new))",
        "async def go(new):\n    return await Commit(new)",
        "async def go(self, asked):\n    return await self._call(1, asked.function)",
        "def go(effect):\n    return effect.probe_body()",
        "def go(bound, call):\n    bound.invoke(call)",
        "journal.release('r')",
        "def save(self):\n    self._disk.rename(a, b)",
        "def save(disk):\n    with created(disk, path) as file:\n        pass",
        "def go(journal):\n    with around('open'):\n        pass\n    journal.open_run(new)",
        "def go(journal):\n    with around('open'):\n        def later():\n            journal.open_run(new)\n        return later",
        "def go(journal):\n    with suppress(ValueError):\n        journal.add_evidence(e)",
        "def _put(journal):\n    journal.append([1])",
        "def _put(journal):\n    journal.append([1])\n\ndef go(journal):\n    _put(journal)",
        "def _put(journal):\n    journal.append([1])\n\ndef _via(journal):\n    _put(journal)\n\ndef go(journal):\n    with around('open'):\n        _via(journal)\n    _via(journal)",
    ],
)
def test_what_is_in_no_bracket_is_seen(planted: str) -> None:
    assert unbracketed({"planted": ast.parse(planted)})


def test_the_way_to_it_is_told() -> None:
    source = "def _put(journal):\n    journal.append([1])\n\ndef go(journal):\n    _put(journal)"
    assert unbracketed({"a.py": ast.parse(source)}) == ["journal.append is in no bracket: a.py:5 go > a.py:2 _put"]


@pytest.mark.parametrize(
    "allowed",
    [
        "def go(journal):\n    with around('claim'):\n        journal.claim(row)",
        "async def go():\n    with around('open'):\n        return await Use(lambda journal: journal.open_run(new))",
        "async def go(self):\n    with around('evidence'), suppress(ValueError):\n        await to_thread(self.journal.add_evidence, e)",
        "async def go(new):\n    with around('open'):\n        return await Commit(new)",
        "def _put(journal):\n    journal.append([1])\n\ndef go(journal):\n    with around('open'):\n        _put(journal)",
        "def go(rows, lock, journal):\n    rows.append(1)\n    lock.release()\n    journal.renew('r')\n    journal.find('r')",
    ],
)
def test_what_is_in_a_bracket_or_needs_none_is_allowed(allowed: str) -> None:
    assert unbracketed({"allowed": ast.parse(allowed)}) == []


@pytest.mark.parametrize(
    "planted",
    ["with around('opened'): pass", "with around(name): pass", "with around(f'append.{x}'): pass", "bracket, f = 'sent', g"],
)
def test_an_unregistered_name_is_seen(planted: str) -> None:
    assert names([ast.parse(planted)])[1]


@pytest.mark.parametrize(
    "planted",
    [
        "Use(lambda j: j.append([1]))",
        "self._use(lambda store: store.claim(r))",
        "def f(store: Journal): ...",
        "def f(j: Journal | None): ...",
    ],
)
def test_a_hidden_journal_is_seen(planted: str) -> None:
    assert misnamed([ast.parse(planted)])
