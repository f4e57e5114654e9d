"""Playing: what a simulated death leaves behind, workflows of one's own, and that plays are deterministic."""

from __future__ import annotations

import os
import re
import threading
from zlib import crc32

import pytest

from recovery import AsyncRun, Run, contracts, workflow
from recovery.storage import open_journal
from recovery.testing import OutOfStock, load, reserving
from recovery.testing.inline import BadReference, resolved
from recovery.testing.loading import parse
from recovery.testing.stage import Stage
from recovery.testing.steps import STEPS
from tests.architecture.source import ROOT
from tests.scenarios.playing import named, played, written

book = reserving("reserve", contracts.Opaque())
abook = reserving("reserve", contracts.Opaque(), is_async=True)


@workflow(name="stubborn")
def stubborn(run: Run, input: str) -> str:
    """User code that swallows everything and tidies up: none of it may reach anything after a death."""
    try:
        run.perform(book(sku=input, qty=2), key="first")
    except BaseException:  # user code that swallows everything is what is tested
        pass
    finally:
        run.perform(book(sku=input, qty=3), key="second")
    return "done"


@workflow(name="stubborn")
async def astubborn(run: AsyncRun, input: str) -> str:
    try:
        await run.perform(abook(sku=input, qty=2), key="first")
    except BaseException:  # user code that swallows everything is what is tested
        pass
    finally:
        await run.perform(abook(sku=input, qty=3), key="second")
    return "done"


OWN = """
scenario: own
name: a workflow of one's own
story: User code that swallows everything dies inside its effect and may reach nothing any more.
environment:
  stock: {FILTER-A: 10}
  effects: {reserve: {contract: opaque}}
workflow: {sync: "tests.scenarios.test_playing:stubborn", async: "tests.scenarios.test_playing:astubborn"}
timeline:
  - run: A
    input: FILTER-A
    kill: {at: environment.committed}
expect:
  status: running
  executions: {first: 1}
  entries: {intent: 1, verdict: 0, settled: 0}
"""


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_dead_reach_nothing(colour: str) -> None:
    journal = open_journal("memory://")
    stage = Stage(written(OWN), journal, is_async=colour == "async")
    stage.make(stage.scenario.timeline[0])
    row = journal.find("run-1")
    assert row is not None
    assert row.owner is not None, "its lease was not released"
    assert (row.head, stage.environment.executions()) == (2, {"first": 1})


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_workflow_of_ones_own(colour: str) -> None:
    assert played(written(OWN), colour).problems == ()


@pytest.mark.parametrize(
    ("workflow", "problem"),
    [
        ('{sync: "tests.nowhere:flow"}', "cannot be imported"),
        ('{sync: "tests.scenarios.test_playing:gone"}', "cannot be imported"),
        ('{sync: "tests.scenarios.test_playing:book"}', "is not a workflow"),
        ('{async: "tests.scenarios.test_playing:astubborn"}', "has no form in this colour"),
    ],
)
def test_a_workflow_that_cannot_be_had(workflow: str, problem: str) -> None:
    scenario = written(re.sub(r"workflow: .*", f"workflow: {workflow}", OWN))
    assert problem in played(scenario).problems[0]


def test_no_thread_survives_a_play() -> None:
    before = set(threading.enumerate())  # not their number: threads of earlier tests may end meanwhile
    result = played(written(OWN.replace("kill:", "pause:")))
    assert "goes on" not in result.transcript
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("name", ["zombie, keyed, sends after the takeover", "two recoverers, keyed, the other leaves"])
def test_plays_are_deterministic(name: str) -> None:
    assert played(named(name)).transcript == played(named(name)).transcript


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.yaml")), ids=lambda path: path.stem)
def test_both_colours_do_the_same(path) -> None:
    """Not only the same outcome: the same journal, the same requests, in the same order, at the same times.

    One scenario of each file; `make replay` takes all.
    """
    derived = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # each database derives its own keys
    found = load(path)
    for scenario in found if os.environ.get("RECOVERY_SWEEP") == "full" else found[crc32(path.stem.encode()) % len(found) :][:1]:
        sync, awaited = (derived.sub("KEY", played(scenario, colour).transcript) for colour in ("sync", "async"))
        assert sync == awaited, scenario.name


@pytest.mark.parametrize(
    ("timeline", "problem"),
    [
        ("[{run: A, kill: {at: probe.before}}]", "move 1 (run): it ended (settled) without passing probe.before 1 time(s)"),
        ("[{run: A, kill: {at: send.before, occurrence: 2}}]", "it ended (settled) without passing send.before 2 time(s)"),
        ("[{run: A, kill: {at: send.before, step: other}}]", "without passing send.before"),
        ("[{resume: A}]", "move 1 (resume): A does not stand still"),
        (
            "[{run: A, pause: {at: send.before}}, {recover: A}]",
            "move 2 (recover): A stands still at send.before; resume or kill it",
        ),
        ("[{environment: {deliver: true}}]", "move 1 (environment): no request is held"),
        ("[{run: A, expect: {exit: failed}}]", "move 1 (run): exit is settled, expected failed"),
        ("[{run: A, expect: {says: nothing}}]", "move 1 (run): it says '', expected 'nothing' in it"),
        ("[{run: A, expect: {outcome: 7}}]", "move 1 (run): outcome is "),
        ("[{run: A}, {expect: {stock: {FILTER-A: 9}}}]", "move 2 (expect): stock is {'FILTER-A': 8}, expected {'FILTER-A': 9}"),
        ("[{run: A}, {expect: {executions: {}}}]", "move 2 (expect): executions is "),
        ("[{run: A}, {expect: {executions: {reserve#1: 2}}}]", "move 2 (expect): executions is "),
        ("[{run: A}, {expect: {absent: [run-1]}}]", "move 2 (expect): run run-1 exists"),
        ("[{run: A}, {expect: {runs: {run-9: {status: failed}}}}]", "move 2 (expect): run run-9 does not exist"),
        (
            "[{run: A}, {expect: {entries: {intent: 2}}}]",
            "move 2 (expect): run-1: entries is {'intent': 1}, expected {'intent': 2}",
        ),
        ("[{run: A}, {expect: {settled: {more#1: {row: kept}}}}]", "move 2 (expect): run-1: more#1 is not settled"),
        ("[{run: A}, {expect: {settled: {reserve#1: {row: kept}}}}]", "reserve#1: row is receipt-original, expected kept"),
        ("[{run: A}, {expect: {epoch: '0.7'}}]", "run-1: epoch is 0.1, expected 0.7"),
        ("[{run: A}, {expect: {failure: OutOfStock}}]", "run-1: failure is , expected OutOfStock"),
        ("[{run: A}, {expect: {late_evidence: 3}}]", "run-1: late_evidence is 0, expected 3"),
        ("[{run: A}, {expect: {asked: {plan: 1}}}]", "asked is {'plan': 0}, expected {'plan': 1}"),
        ("[{run: A}]", "the end: run-1: status is completed, expected failed"),
    ],
)
def test_an_expectation_that_does_not_hold(timeline: str, problem: str) -> None:
    scenario = written(
        "scenario: x\nname: x\nstory: Something that the file expects does not come true.\n"
        "environment: {stock: {FILTER-A: 10}, effects: {reserve: {contract: keyed, window: 24h}}}\n"
        "workflow: [{perform: reserve, with: {sku: FILTER-A, qty: 2}, key: k}]\n"
        f"timeline: {timeline}\nexpect: {{status: failed}}\n"
    )
    result = played(scenario)
    assert not result.passed
    assert any(problem in found for found in result.problems), result.problems


EVERY_STEP = """
scenario: steps
name: every step of the vocabulary
story: Each inline step does what it says, in both colours, and a failure of the workflow's own is caught by its own code.
environment:
  stock: {FILTER-A: 3}
  effects: {reserve: {contract: keyed, window: 24h}}
workflow:
  - decide: plan
    of: $input
    value: {qty: 2, note: $$price}
  - deadline: 1h
    do:
      - saga: booking
        do:
          - compensate: nothing
  - wait_for: approval
    timeout: 1s
    default: nobody
  - receive: chat
    timeout: 1s
    default: nothing
  - publish: stage
    value: $approval
  - child: small
    with: 20
    do:
      - return: $input
  - try:
      - fail: on purpose
    except:
      - attempt: reserve
        with: {sku: FILTER-A, qty: $plan.qty}
        as: got
        applied:
          - attempt: reserve
            with: {sku: FILTER-A, qty: $plan.qty}
            name: more
            rejected:
              - sleep: 1s
              - gather:
                  - - return: $input
                  - - decide: inside
                      value: 7
                    - return: $inside
                as: both
              - return: {got: $got.qty, more: $more, note: $plan.note, input: $input, both: $both, undone: $nothing.undone, small: $small, said: [$approval, $chat]}
  - fail: not reached
timeline:
  - run: A
    input: [1]
    expect:
      exit: settled
      outcome: {got: 2, more: {error: OutOfStock, sku: FILTER-A, available: 1}, note: $price, input: [1], both: [[1], 7], undone: [], small: 20, said: [nobody, nothing]}
expect:
  executions: {reserve#1: 1}
  asked: {plan: 1, inside: 1}
"""


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_every_step(colour: str) -> None:
    assert played(written(EVERY_STEP), colour).problems == ()
    verbs = {field.alias or name for step in STEPS for name, field in [next(iter(step.model_fields.items()))]}
    assert {verb for verb in verbs if f"- {verb}:" in EVERY_STEP} == verbs - {"perform"}


def test_a_reference_to_nothing() -> None:
    with pytest.raises(BadReference, match=r"\$a\.c refers to nothing; known: a"):
        resolved({"x": ["$a.c"]}, {"a": {"b": 1}})


def test_an_environments_rejection_is_its_own_class() -> None:
    assert OutOfStock(sku="a", available=1) == OutOfStock(sku="a", available=1)


def test_the_example_in_the_docs_holds() -> None:
    page = (ROOT / "docs/how-to/write-a-scenario.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```yaml[^\n]*\n(.*?)```", page, flags=re.DOTALL)
    [scenario] = parse(example, "write-a-scenario.md")
    for colour in ("sync", "async"):
        assert played(scenario, colour).problems == ()
