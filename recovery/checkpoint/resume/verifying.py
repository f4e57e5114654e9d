"""Verifying a resume: interrupted, restored and continued must equal uninterrupted, in every field after every update.

Owns the verdict. Must not know how a process is started or a file written. Invariant: `exact` is said only if every field agreed after every
update under the contract, before the interruption as well as after it; and an inexact report names the first divergence and what kind it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from recovery.checkpoint.errors import TrainerRefused
from recovery.checkpoint.resume import parting
from recovery.checkpoint.resume.ablation import Dropped, Trajectory, point
from recovery.checkpoint.resume.comparing import Divergence, divergence, fields
from recovery.checkpoint.resume.resuming import Order
from recovery.checkpoint.resume.tolerance import EXACT, Contract
from recovery.checkpoint.resume.tracing import Trace
from recovery.checkpoint.resume.trainers import Make, Step, name_of

REFERENCE: Final = ("recovery.checkpoint.reference:make", "recovery.checkpoint.reference:step")
"""What is verified unless a trainer is named."""

UNINTERRUPTED: Final = "uninterrupted"
RESUMED: Final = "resumed"


class Finding(StrEnum):
    """What a verification came to."""

    EXACT = "exact"  # nothing differs under the contract
    NOT_REPEATABLE = "not-repeatable"  # two runs from the beginning differ: no resume can be judged
    NOT_RESTORED = "not-restored"  # the state differs right after it was restored
    HIDDEN_STATE = "hidden-state"  # restored whole, and a later update differs: something takes part that is not in the state
    NOT_IDEMPOTENT = "not-idempotent"  # restoring a second time changes the state
    UNNOTICED = "unnoticed"  # exact, and a state without one of its fields was taken and went on without a divergence


ADVICE: Final[dict[Finding, str]] = {
    Finding.EXACT: "Nothing is to be done.",
    Finding.NOT_REPEATABLE: "Make the run repeatable first: seed every generator in `make`, fix the order of sums, and verify again.",
    Finding.NOT_RESTORED: "Make `restore` put back what `capture` took, this field first, and verify again.",
    Finding.HIDDEN_STATE: "Look for what an update reads and `capture` does not take: a generator that is not registered, a data "
    "iterator, a schedule's own counter, a cache. Capture it, and verify again.",
    Finding.NOT_IDEMPOTENT: "Make `restore` leave nothing of what was there before, and verify again.",
    Finding.UNNOTICED: "Give the field a place in the updates, or take it out of the state.",
}
"""What to do next."""


@dataclass(frozen=True, slots=True)
class ResumeReport:
    """What was compared, and what came of it. Steps are completed updates, counted from the beginning of the run."""

    finding: Finding
    before: int  # updates up to the save
    after: tuple[int, ...]  # updates of each resumed part, in a process of its own each
    draws: int  # examples that the whole run consumed
    fields: int  # leaves that were compared after each update
    compared: int  # comparisons of one field after one update
    contract: Contract
    fresh_process: bool
    divergence: Divergence | None  # the first one; None if there is none
    dropped: tuple[Dropped, ...]  # the ablation, a field each
    trajectories: tuple[Trajectory, ...]  # the uninterrupted run, the resumed one, and those from less than the state
    unregistered: tuple[str, ...]  # process-wide generators that were drawn from and are not in the state

    @property
    def exact(self) -> bool:
        """Whether the resumed run equals the uninterrupted one."""
        return self.finding in {Finding.EXACT, Finding.UNNOTICED}

    @property
    def ok(self) -> bool:
        """Exact, and no field can be lost without notice."""
        return self.finding is Finding.EXACT

    @property
    def advice(self) -> str:
        """The next step."""
        return ADVICE[self.finding]

    def to_json(self) -> dict[str, Any]:
        return {
            "finding": self.finding.value,
            "exact": self.exact,
            "before": self.before,
            "after": list(self.after),
            "draws": self.draws,
            "fields": self.fields,
            "compared": self.compared,
            "contract": self.contract.to_json(),
            "fresh_process": self.fresh_process,
            "divergence": self.divergence and self.divergence.to_json(),
            "dropped": [asdict(each) | {"noticed": each.noticed} for each in self.dropped],
            "trajectories": [asdict(each) for each in self.trajectories],
            "unregistered": list(self.unregistered),
            "advice": self.advice,
        }


class Watch(Protocol):
    """Whoever shows progress."""

    def part(self, doing: str, updates: int) -> None:
        """A part begins, with so many updates."""

    def beat(self) -> None:
        """One update of it is done."""


class _Nobody:
    def part(self, doing: str, updates: int) -> None:
        pass

    def beat(self) -> None:
        pass


def verify_resume(
    make: Make | str = REFERENCE[0],
    step: Step | str = REFERENCE[1],
    *,
    before: int = 17,
    after: int | Sequence[int] = 23,
    fresh_process: bool = True,
    ablate: bool = True,
    contract: Contract = EXACT,
    directory: Path | None = None,
    watch: Watch | None = None,
) -> ResumeReport:
    """Run `before` + `after` updates uninterrupted, and again with a save, a fresh process and a restore in between; compare everything.

    make, step: functions that a fresh process can import, or their names as MODULE:FUNCTION.
    after: updates behind the restore; several numbers are several resumes, one after the other.
    fresh_process: False compares in this process, where a hidden state may survive the restore unseen.
    ablate: drop each field in turn, and take the trajectories from less than the state.
    directory: keep the checkpoints there, in `store`; it must not hold any yet. Meanwhile the states of all updates are kept beside them.

    Raises TrainerRefused, VerificationBroken where a process failed, and CheckpointError where a save or restore was refused.
    """
    parts = (after,) if isinstance(after, int) else tuple(after)
    if before < 1 or not parts or min(parts) < 1:
        problem = f"{before} before and {parts} after are no numbers of updates"
        raise TrainerRefused(what="updates", name=f"{before}", problem=problem, advice="Give at least one before and one after.")
    if fresh_process:
        make, step = name_of(make, "make"), name_of(step, "step")
    with _place(directory) as place:
        return _Verification(place, make, step, before, parts, contract, fresh_process, watch or _Nobody()).report(ablate)


def judged(finding: Finding, dropped: Sequence[Dropped]) -> Finding:
    """The finding of a comparison, with its ablation: exact is not enough where a field can be lost without notice."""
    return Finding.UNNOTICED if finding is Finding.EXACT and not all(each.noticed for each in dropped) else finding


@dataclass(slots=True)
class _Verification:
    place: Path
    make: Make | str
    step: Step | str
    before: int
    after: tuple[int, ...]
    contract: Contract
    fresh_process: bool
    watch: Watch
    unregistered: list[str] = field(default_factory=list)
    compared: int = 0

    def report(self, ablate: bool) -> ResumeReport:
        total = self.before + sum(self.after)
        whole, first, resumed = (Trace(self.place / name) for name in ("uninterrupted", "interrupted", "resumed"))
        self._part("uninterrupted", "without interruption", total, trace=whole)
        self._part("interrupted", "up to the save", self.before, trace=first, save=True)
        found = self._compare(whole, first, 1, self.before)
        finding = Finding.NOT_REPEATABLE if found else Finding.EXACT
        lines = [_line(UNINTERRUPTED, whole, whole, 1, total)]
        dropped: tuple[Dropped, ...] = ()
        less: list[Trajectory] = []
        if found is None:
            if ablate:
                dropped, less = self._ablated(whole)
            finding, found = self._resumed(whole, resumed)
            lines += [_line(RESUMED, whole, resumed, self.before + 1, total), *less]
        last = whole.read(total)
        return ResumeReport(
            finding=judged(finding, dropped),
            before=self.before,
            after=self.after,
            draws=last.state["cursor"]["draws"],
            fields=len(fields(last)),
            compared=self.compared,
            contract=self.contract,
            fresh_process=self.fresh_process,
            divergence=found,
            dropped=dropped,
            trajectories=tuple(lines),
            unregistered=tuple(dict.fromkeys(self.unregistered)),
        )

    def _resumed(self, whole: Trace, resumed: Trace) -> tuple[Finding, Divergence | None]:
        """Each part from the checkpoint of the one before it."""
        at = self.before
        for number, updates in enumerate(self.after, 1):
            name, last = f"resumed-{number}", number == len(self.after)
            told = self._part(name, f"resumed at {at}", updates, trace=resumed, load=True, save=not last)
            if found := self._compare(whole, resumed, at, at):
                return Finding.NOT_RESTORED, found
            if found := self._compare(whole, resumed, at + 1, at + updates):
                return Finding.HIDDEN_STATE, found
            if told["round_trip"] is not None:
                return Finding.NOT_IDEMPOTENT, Divergence.from_json(told["round_trip"])
            at += updates
        return Finding.EXACT, None

    def _ablated(self, whole: Trace) -> tuple[tuple[Dropped, ...], list[Trajectory]]:
        state = whole.read(self.before)
        groups = {name.partition("/")[0] for name in state.tensors}
        count = (
            len(groups) + len(state.state["generators"]) + ("extra" in state.state) + 4 + 2
        )  # what else can be dropped, and the two trajectories
        updates = sum(self.after)
        order = self._order("ablation", updates, beside=whole, load=True)
        self.watch.part("without one field at a time", updates * count)
        told = self._start(order, "went on without one field at a time")
        return tuple(Dropped.from_json(each) for each in told["dropped"]), [
            Trajectory.from_json(each) for each in told["trajectories"]
        ]

    def _compare(self, whole: Trace, other: Trace, first: int, last: int) -> Divergence | None:
        for number in range(first, last + 1):
            expected, found = whole.read(number), other.read(number)
            self.compared += len(fields(expected))
            if differs := divergence(number, expected, found, self.contract):
                return differs
        return None

    def _part(self, name: str, doing: str, updates: int, *, trace: Trace, load: bool = False, save: bool = False) -> dict[str, Any]:
        self.watch.part(doing, updates)
        told = self._start(self._order(name, updates, trace=trace, load=load, save=save), f"ran {doing}")
        self.unregistered += told["unregistered"]
        return told

    def _order(
        self,
        name: str,
        updates: int,
        *,
        trace: Trace | None = None,
        load: bool = False,
        save: bool = False,
        beside: Trace | None = None,
    ) -> Order:
        store = str(self.place / "store")
        return Order(
            make=self.make,
            step=self.step,
            updates=updates,
            answer=str(self.place / f"{name}.json"),
            trace=str(trace.directory) if trace else "",
            load=store if load else "",
            save=store if save else "",
            beside=str(beside.directory) if beside else "",
        )

    def _start(self, order: Order, doing: str) -> dict[str, Any]:
        if self.fresh_process:
            return parting.fresh(order, doing, self.contract, self.watch.beat)
        return parting.here(order, self.contract, self.watch.beat)


def _line(name: str, whole: Trace, other: Trace, first: int, last: int) -> Trajectory:
    """The part of a trace that is there, beside the uninterrupted one."""
    steps = [number for number in range(first, last + 1) if other.has(number)]
    return Trajectory(name, tuple(point(number, whole.read(number), other.read(number)) for number in steps))


@contextmanager
def _place(directory: Path | None) -> Iterator[Path]:
    """A directory for the verification. What is kept of a user's own one are the checkpoints."""
    if directory is not None:
        advice = "Name a new one: a verification starts from nothing."
        try:
            directory.mkdir(parents=True, exist_ok=True)
            problem = "it is not empty" if any(directory.iterdir()) else ""
        except OSError as error:
            problem = f"it cannot be used: {error.strerror}"
        if problem:
            raise TrainerRefused(what="directory", name=str(directory), problem=problem, advice=advice)
    with tempfile.TemporaryDirectory(prefix="verify-resume-", dir=directory) as scratch:
        place = Path(scratch).absolute()
        yield place
        if directory is not None and (place / "store").exists():
            (place / "store").rename(directory.absolute() / "store")
