"""The timeline: every kind of entry is told, in order, plain in a pipe."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from recovery.console.paper import plain
from recovery.console.timeline import lines, timeline
from recovery.core import contracts
from recovery.core.entries import (
    UNDOING,
    Answered,
    AnswerKind,
    Attempt,
    Decision,
    Entry,
    Intent,
    Observation,
    Opened,
    OutcomeKind,
    Settled,
    Source,
    Verdict,
)

T0 = 1_764_442_983_000_000
KEYED = contracts.Keyed(window=timedelta(hours=24))
STEP = "reserve#1"


def attempt(number: int, at_us: int, purpose: str = "send") -> Attempt:
    return Attempt(step=STEP, number=number, purpose=purpose, sent_at_us=at_us, send_until_us=at_us + 10_000_000, epoch="0.1")


def reply(number: int, at_us: int, answer: Answered) -> Observation:
    return Observation(
        step=STEP, source=Source.REPLY, asked_at_us=at_us - 2_000, observed_at_us=at_us, answer=answer, attempt=number
    )


ENTRIES: list[tuple[int, str, Entry]] = [
    (1, "0.1", Opened(workflow="resolve", version="1", input={"units": 2}, input_digest="d", at_us=T0)),
    (2, "0.1", Decision(step="approve#1", fingerprint="f", value="yes", at_us=T0 + 1_500)),
    (
        3,
        "0.1",
        Intent(
            step=STEP, effect="reserve", environment="inventory", scope="warehouse-1", key="reservation-1", fingerprint="96a7bb80fda6e0",
            arguments={"units": 2}, contract=KEYED.digest, timeout_us=10_000_000, at_us=T0 + 2_000, attempt=attempt(1, T0 + 2_000),
        ),
    ),
    (4, "0.2", attempt(2, T0 + 1_002_000, "resend")),
    (5, "0.2", reply(2, T0 + 1_004_000, Answered(kind=AnswerKind.UNREACHABLE, detail="ConnectionError"))),
    (
        6,
        "0.2",
        Verdict(step=STEP, row="backing-off", action="wait", reason="nothing-told-yet", at_us=T0 + 1_004_000, next_look_us=T0 + 1_204_000),
    ),
    (7, "0.2", attempt(3, T0 + 1_204_000, "resend")),
    (
        8,
        "0.2",
        Settled(
            step=STEP, outcome=OutcomeKind.APPLIED, at_us=T0 + 1_206_000, value={"id": "1"}, row="receipt-original", reason="original-receipt",
            assumptions=("A1", "A6", "default replay_success=original"),
            observation=reply(3, T0 + 1_206_000, Answered(kind=AnswerKind.FOUND, value={"id": "1"}, receipt="r-9")),
        ),
    ),
    (9, "0.2", Settled(step="", outcome=OutcomeKind.APPLIED, at_us=T0 + 1_207_000, value="done")),
]  # fmt: skip

GOLDEN = """\
#  time (UTC)         after  epoch  what
   2025-11-29
1  19:03:03.000000           0.1    opened     workflow resolve, version 1
                                               input {"units": 2}
2  19:03:03.001500  +1.5 ms  0.1    decided    approve#1  "yes"
3  19:03:03.002000  +500 us  0.1    intended   reserve#1  reserve in inventory/warehouse-1
                                               key reservation-1, fingerprint 96a7bb80fda6, contract keyed, window 24 h
                                               arguments {"units": 2}
3  19:03:03.002000    +0 us  0.1    attempt    reserve#1  1: send, gives up after 10 s
   19:03:04.002000     +1 s  0.2    claimed    epoch 0.2 took the run over from epoch 0.1
4  19:03:04.002000    +0 us  0.2    attempt    reserve#1  2: resend, gives up after 10 s
5  19:03:04.004000    +2 ms  0.2    observed   reserve#1  reply to attempt 2 after 2 ms: unreachable (ConnectionError)
6  19:03:04.004000    +0 us  0.2    verdict    reserve#1  wait: nothing-told-yet (backing-off)
                                               next look at 2025-11-29 19:03:04.204 UTC
7  19:03:04.204000  +200 ms  0.2    attempt    reserve#1  3: resend, gives up after 10 s
8  19:03:04.206000    +2 ms  0.2    observed   reserve#1  reply to attempt 3 after 2 ms: found {"id": "1"} receipt r-9
8  19:03:04.206000    +0 us  0.2    adopted    reserve#1  applied {"id": "1"}
                                               because original-receipt (receipt-original); assumes A1, A6 and 1 default of the contract
9  19:03:04.207000    +1 ms  0.2    completed  "done"
"""


def test_the_whole_story() -> None:
    assert plain(timeline(lines(ENTRIES, {KEYED.digest: KEYED}))) == GOLDEN


OF_RUNS = {OutcomeKind.FAILED, OutcomeKind.CANCELLED}


def test_every_ending_has_its_word() -> None:
    def told(entry: Entry) -> str:
        return lines([(1, "0.1", entry)], {})[-1].what

    def settled(outcome: OutcomeKind, step: str = STEP) -> Settled:
        return Settled(step=step, outcome=outcome, at_us=T0, value={"message": "no"}, error="E", row="r", reason="because")

    assert {outcome: told(settled(outcome)) for outcome in OutcomeKind if outcome not in OF_RUNS} == {
        OutcomeKind.APPLIED: "adopted",
        OutcomeKind.APPLIED_WITHOUT_VALUE: "adopted",
        OutcomeKind.MIXED: "adopted",
        OutcomeKind.REJECTED: "rejected",
        OutcomeKind.NOT_EXECUTED: "not executed",
    }
    assert told(settled(OutcomeKind.FAILED, step="")) == "failed"
    assert told(replace(settled(OutcomeKind.CANCELLED, step=""), value={"by": "ann", "reason": "x"})) == "cancelled"
    assert told(Verdict(step="x", row="diverged", action="diverge", reason="recorded a, attempted b", at_us=T0)) == "diverged"


def test_every_ending_can_be_drawn() -> None:
    for outcome in OutcomeKind:
        step = "" if outcome in OF_RUNS else STEP
        value = {"by": "ann", "reason": "x"} if outcome is OutcomeKind.CANCELLED else None
        entry = Settled(step=step, outcome=outcome, at_us=T0, value=value, error="E", row="r", reason="because")
        assert plain(timeline(lines([(1, "0.1", entry)], {})))


def test_late_evidence_stands_at_the_end_without_a_number() -> None:
    late = Observation(
        step=STEP, source=Source.LATE, asked_at_us=T0, observed_at_us=T0, answer=Answered(kind=AnswerKind.FOUND, value=1)
    )
    drawn = plain(timeline(lines(ENTRIES[:3], {}, [("0.1", late)])))
    assert drawn.splitlines()[-1].split()[:4] == ["19:03:03.000000", "-2", "ms", "0.1"]
    assert "late evidence  reserve#1  observed: late after 0 us: found 1" in drawn


def test_what_undoes_points_at_what_it_undoes() -> None:
    noted = {"undoes": ["reserve#2", STEP], "quiet_at_us": T0 + 60_000_000, "cancelled": False}
    nothing = {"undoes": [], "quiet_at_us": None, "cancelled": False}
    told = lines(
        [
            (1, "0.1", Decision(step="booking#1", fingerprint="", value=noted, form=UNDOING, at_us=T0)),
            (
                2,
                "0.1",
                Intent(
                    step="booking#1/release#1", effect="release", environment="inventory", scope="warehouse-1", key="k/comp/1",
                    fingerprint="96a7bb80fda6e0", arguments={}, contract=KEYED.digest, timeout_us=10_000_000, at_us=T0, undoes="reserve#2",
                ),
            ),
            (3, "0.1", Decision(step="booking#2", fingerprint="", value=nothing, form=UNDOING, at_us=T0)),
        ],
        {KEYED.digest: KEYED},
    )  # fmt: skip
    assert [(line.what, line.text) for line in told] == [
        ("undoing", f"reserve#2, then {STEP}"),
        ("undoing", "← reserve#2: release in inventory/warehouse-1"),
        ("undoing", "nothing"),
    ]
    assert told[0].details == ("from 2025-11-29 19:04:03.000 UTC on: until then a copy of what is undone could still act",)
