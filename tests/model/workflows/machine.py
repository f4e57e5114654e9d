"""The machine: a random workflow, random processes at work on it, and what may go wrong between any two of their steps.

Owns what can happen in a history and in which order Hypothesis may draw it. What is right is said by `plain`, and compared in `comparing`;
the promises I1 to I10 are looked at after each move, too. Invariant: a history is a timeline of moves, so that one that fails is a scenario
which `recover replay` plays.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from recovery.testing import Scenario
from recovery.testing.casting import cast_of
from recovery.testing.exploration.branching import RUN, said
from recovery.testing.exploration.judging import Judge
from recovery.testing.exploration.playing import Play
from recovery.testing.exploration.writing import scenario_of, written
from recovery.testing.ledger import Ended
from recovery.testing.process import Report
from recovery.testing.stage import Failed
from tests.model.workflows.comparing import differences
from tests.model.workflows.drawing import EFFECTS, Workflow, workflows
from tests.model.workflows.plain import ANSWER, meaning_of
from tests.model.workflows.tally import Tally

FAULTS_MAX = 4
PASSING_MAX = timedelta(hours=2)
"""Of all steps of time together. Whatever a workflow sleeps beside that, a key is remembered for a day."""

LOOKS_MAX = 60
"""How often a run is recovered at the end of a history until it is settled: it never takes half of that."""


class Difference(AssertionError):
    """The run did not come to what plain Python comes to, or broke a promise on the way."""

    def __init__(self, problems: list[str], scenario: Scenario) -> None:
        super().__init__("\n".join([*problems, "", written(scenario)]))


class Histories(RuleBasedStateMachine):
    """One history after the other, each of a workflow of its own."""

    tally: ClassVar[Tally] = Tally()

    @initialize(workflow=workflows(), is_async=st.booleans(), deaths=st.lists(st.integers(1, 40), min_size=1, max_size=4))
    def begin(self, workflow: Workflow, is_async: bool, deaths: list[int]) -> None:
        """deaths: of those who come at the end, after how many places each of the first ones is killed."""
        self.deaths = deaths
        self.kills, self.passed, self.faults = 0, timedelta(0), 0
        self.workflow, self.told = workflow, set[str]()
        self.scenario = Scenario.model_validate(
            {
                "scenario": "drawn",
                "name": "a random workflow",
                "story": "Drawn at random, and compared with what plain Python makes of it.",
                "environment": {"stock": {"A": 10**6}, "effects": EFFECTS, "acts_within": "30s"},
                "workflow": workflow.steps,
                "timeline": [{"run": "A"}],
                "budget": {"attempts": 100, "probes": 100},
                "expect": {},
            }
        )
        self.play = Play(self.scenario, cast_of(self.scenario, is_async=is_async), is_async)
        self.judge = Judge()
        self.meaning = meaning_of(self.scenario.workflow)  # type: ignore[arg-type]  # it has steps
        self.names = 0

    # -- who is at work ------------------------------------------------------------------------------------------------

    @rule(places=st.integers(1, 25), dies=st.booleans())
    def work(self, places: int, dies: bool) -> None:
        """Whoever went on last goes on so many places; where nobody stands still, the next one comes."""
        standing = self.standing
        self.go(said(resume=standing[-1]) if standing else self.comes(), places)
        if dies and self.play.moment.active is not None:
            self.kill(self.play.moment.active)

    @precondition(lambda self: self.standing)
    @rule(places=st.integers(1, 25), dies=st.booleans())
    def overtake(self, places: int, dies: bool) -> None:
        """Whoever was at work stands still, as under SIGSTOP, past its lease; another one takes the run."""
        self.go(self.comes(), places)
        if dies and self.play.moment.active is not None:
            self.kill(self.play.moment.active)

    @precondition(lambda self: len(self.standing) > 1)
    @rule(places=st.integers(1, 15), which=st.integers(0, 9))
    def go_on_late(self, places: int, which: int) -> None:
        standing = self.standing
        self.go(said(resume=standing[which % len(standing)]), places)

    @precondition(lambda self: self.standing)
    @rule(which=st.integers(0, 9))
    def die(self, which: int) -> None:
        standing = self.standing
        self.kill(standing[which % len(standing)])

    @precondition(lambda self: self.branches)
    @rule(places=st.integers(1, 15), which=st.integers(0, 9))
    def turn(self, places: int, which: int) -> None:
        """Another branch of whoever went on last has the turn."""
        branches = self.branches
        self.go(said(resume=self.play.moment.active, branch=branches[which % len(branches)]), places)

    # -- what people say -----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.open and (self.workflow.asked or self.workflow.topics))
    @rule(which=st.integers(0, 9))
    def say(self, which: int) -> None:
        """An answer that is waited for by now, or later, or never; or a message. Whoever does not hear that it was taken says it again."""
        names = [*self.workflow.asked, *self.workflow.topics]
        self.tell(names[which % len(names)])

    @precondition(lambda self: self.open and self.told & set(self.workflow.asked))
    @rule(which=st.integers(0, 9))
    def contradict(self, which: int) -> None:
        """Somebody else answers otherwise, too late."""
        told = sorted(self.told & set(self.workflow.asked))
        name = told[which % len(told)]
        came = self.speak({"signal": self.meaning.waits.get(name, name), "value": {"said": "no"}, "by": "bob"})
        self.require([f"a second answer to {name} was taken"] if came == "said" else [])

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.faults < FAULTS_MAX)
    @rule(what=st.sampled_from([{"drop_replies": 1}, {"hold": "30s"}, {"hold": "2s"}, {"fail": "before"}, {"turn_away": 1}]))
    def disturb(self, what: dict[str, Any]) -> None:
        self.faults += 1
        self.make(said(environment=what))

    @precondition(lambda self: self.faults < FAULTS_MAX)
    @rule(strikes=st.sampled_from([{"refuse": 1}, {"lose": "repeated"}, {"lose": "unknown"}]))
    def strike(self, strikes: dict[str, Any]) -> None:
        self.faults += 1
        self.make(said(journal=strikes))

    @precondition(lambda self: self.passed < PASSING_MAX)
    @rule(lasts=st.sampled_from([timedelta(seconds=5), timedelta(seconds=45), timedelta(minutes=15), timedelta(hours=1)]))
    def pass_time(self, lasts: timedelta) -> None:
        if self.passed + lasts <= PASSING_MAX:
            self.passed += lasts
            self.make(said(advance=lasts))

    @invariant()
    def promises_hold(self) -> None:
        if hasattr(self, "play"):
            self.require(self.judge.problems(self.play.stage))

    # -- the end -------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "play"):
            return
        try:
            self.settle()
            self.require(differences(self.meaning, self.play))
            self.tally.add(self.meaning.features, self.kills)
        finally:
            self.play.stage.end()

    def settle(self) -> None:
        """Whoever stands still goes on, a few more come and die, then one undisturbed process after the other recovers what is open until all of it is settled."""
        for name in self.standing:
            self.go(said(resume=name), None)
        for places in self.deaths:
            self.go(self.comes(), places)
            for name in self.standing:
                self.kill(name)
        for _ in range(LOOKS_MAX):
            rows = [row for row in self.play.journal.runs() if not row.status.settled]
            if not rows and self.play.journal.find(RUN) is not None:
                return
            for name in {*self.workflow.asked, *self.workflow.topics} - self.told if self.open else ():
                self.tell(name)
            looks = [row.next_look_us for row in rows if row.next_look_us is not None]
            if rows and len(looks) == len(rows) and (left := min(looks) - self.play.stage.clock.wall_us()) > 0:
                self.make(said(advance=timedelta(milliseconds=-(-left // 1000))))
            for run_id in [row.run_id for row in rows] or [RUN]:
                self.go(self.comes(run_id), None)
            self.promises_hold()
        self.require([f"{row.run_id} is {row.status.value} after {LOOKS_MAX} recoveries" for row in rows])

    # -- moves ---------------------------------------------------------------------------------------------------------

    @property
    def standing(self) -> list[str]:
        """Who stands still; whoever went on last comes last."""
        moment = self.play.moment
        return [*moment.others, *([moment.active] if moment.active is not None else [])]

    def comes(self, run_id: str = RUN) -> Any:
        """The next process, under a name of its own."""
        self.names += 1
        name = f"P{self.names}"
        if self.play.journal.find(run_id) is None:
            return said(run=name)
        return said(recover=name, id=run_id, wait=timedelta(minutes=2))

    @property
    def branches(self) -> tuple[int, ...]:
        """Those of whoever went on last that could go on beside the one that did."""
        return self.play.moment.branches

    @property
    def open(self) -> bool:
        """Whether there is a run to which something can be said."""
        row = self.play.journal.find(RUN)
        return row is not None and not row.status.settled

    def tell(self, name: str) -> None:
        """Say it until it is heard that it was taken. An answer is for its step: one that is in a branch, and was not reached, has no other name."""
        about = {"value": ANSWER | {"about": name}, "by": "ann"}
        move = (
            {"signal": self.meaning.waits.get(name, name), **about}
            if name in self.workflow.asked
            else {"send": name, "token": name, **about}
        )
        came = ""
        for _ in range(FAULTS_MAX + 1):
            if (came := self.speak(move)) == "said":
                self.told.add(name)
                return
        self.require([f"nobody took {move}: {came}"])

    def speak(self, move: dict[str, Any]) -> str:
        """How it ends for whoever says it."""
        self.make(said(**move))
        return [event for event in self.play.stage.ledger.events if isinstance(event, Ended)][-1].exit

    def go(self, move: Any, places: int | None) -> None:
        """Start or go on, so many named places or to the end."""
        report = self.make(move)
        name = self.play.passed and self.play.moment.active
        while report is not None and report.state == "paused" and (places is None or places > 1):
            places = None if places is None else places - 1
            report = self.make(said(resume=name))
        if report is not None and report.ended is not None and report.ended.exit == "bug":
            self.require([report.ended.message])
        if report is not None and report.state == "endless":
            self.require(["a process passed more places than any that ends"])

    def kill(self, name: str) -> None:
        self.make(said(kill=name))
        self.kills += 1

    def make(self, move: Any) -> Report | None:
        try:
            return self.play.make(move, 0)[1]
        except Failed as failed:
            self.require(failed.problems)
            raise

    def require(self, problems: list[str]) -> None:
        if problems:
            raise Difference(
                problems, scenario_of(self.scenario, self.play.moves, name="a difference", story="Drawn at random; it differs.")
            )
