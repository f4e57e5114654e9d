"""Every error of the package, as one tree.

    RecoveryError
      UsageError        InvalidName, DefinitionError, ValueNotStorable, RunNotFound, RunInputDiffers, NotObservable, NotAttributed, ScopeUnknown, EngineClosed, ConcurrentStep, StepNotAwaited, WorkflowUnknown, AppNotFound, ExtraMissing, StoreUrlError, StepNotFound, StepSettled, OverrideRefused, ChildRefused, SignalRefused, ListenerAhead
      JournalError      IllegalHistory, SchemaMismatch, JournalCorrupt, StoreDamaged, StoreUnavailable, RunForgotten, EncryptionKeyMissing, EncryptionKeyWrong
      OwnershipError    LeaseUnavailable, FencedOut, RunLeftBehind, HeadMoved
      EffectError       EffectInDoubt (CompensationStuck), EffectInterrupted, EffectForbidden, KeyReused, NotExecuted (RetriesExhausted), OutcomeUnavailable, Unresolved, NotLicensed, KeyStillAsked
      RunFailed, RunCancelled, RunHeld (RunPaused), RunUnsettled (RunInDoubt, RunDiverged, RunWaits), DecisionFailed, StepInterrupted, TimerPending, DeadlinePassed, AnswerPending, WaitLapsed, ChildFailed, ThreadUnavailable
      ChildOpen         ChildInDoubt, ChildDiverged, ChildWaits
      ReplayError       Diverged, IncompatibleVersion, ValueUnreadable
      CheckpointError   in recovery.checkpoint.errors
    InvariantViolated(AssertionError)      our bug; outside the tree, so that nobody catches it by habit

The branch of EffectError is in `effect_errors`, what orders come to in `order_errors`, what a look at an open run comes to in `looking_errors`, what is said of children in `child_errors`, what the host refuses in `host_errors`. Owns what an error says: whether it happened, did not, or might have; who acts next; and, last, how. Fields are keyword-only, plain values, and survive pickling, copying and process boundaries.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from recovery.core.exitcodes import ExitCode as ExitCode

_RESTORE = "Keep the database as it is, restore it from a backup, and declare that with `recover restored`."


class RecoveryError(Exception):
    """Base of all errors a caller may handle. ``str(error)`` ends with the next step."""

    exit_code: ClassVar[ExitCode] = ExitCode.USAGE
    template: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        """Named where users import it from, in tracebacks and in journals: the name of a failure is stored, and outlives a move."""
        if cls.__module__.startswith("recovery.core."):
            cls.__module__ = "recovery.errors"

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        super().__init__(self.template.format(**fields))

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self.fields), ()


# -- you asked for something that cannot be; nothing happened ----------------------------------------------------------


class UsageError(RecoveryError):
    """The call is wrong; nothing happened."""


class InvalidName(UsageError):
    template = "{what} {name!r} is not valid, and nothing happened. Use {rule}."


class EngineClosed(UsageError):
    template = "The engine of {database} is closed, and nothing happened. Enter it again with `with`, make another one, or call this before `close` or the end of its block."


class DefinitionError(UsageError):
    """An effect, contract or workflow that cannot be true, refused where it is defined."""

    template = "{what} {name!r}: {problem}. Nothing happened. {advice}"


class ValueNotStorable(UsageError):
    template = "{where}: the value at {path} cannot be stored ({problem}). Nothing happened. {advice}"


class RunNotFound(UsageError):
    template = "There is no run {run_id!r} in {database}. Nothing was changed. List runs with `recover runs`."


class RunInputDiffers(UsageError):
    template = (
        "Run {run_id!r} exists with another {what}: recorded {recorded}, given {given}. Nothing was sent or changed. "
        "Use the recorded one to continue that run, or choose a new run id."
    )


class NotObservable(UsageError):
    template = "Run {run_id!r}, step {step!r}: this cannot be kept as evidence, because {problem}. Nothing was changed. {advice}"


class NotAttributed(UsageError):
    template = "A database is declared restored by somebody and for a reason, and one of them is missing. Nothing was changed. Give --by and --reason."


class ScopeUnknown(UsageError):
    template = "The scope of environment {environment!r} is unknown: its function raised {error} ({message}). Nothing was sent. Correct it and run again."


class ConcurrentStep(UsageError):
    template = (
        "Run {run_id!r}: step {step!r} began while {other} was still under way. Nothing was sent for it. Await (or finish) one "
        "step before the next one; a branch of a gather takes its steps on the run that it is given: `lambda branch: branch.perform(...)`."
    )


class StepNotAwaited(UsageError):
    template = (
        "Run {run_id!r}: the workflow ended while {step} was still under way, so what it did is not known. Nothing was settled. "
        "Await (or finish) every step before the workflow returns."
    )


class WorkflowUnknown(UsageError):
    template = (
        "Run {run_id!r} belongs to workflow {workflow!r}, which this engine does not have (it has: {known}). Nothing was changed. "
        "Give the engine that workflow, or name the app that has it with --app module:engine."
    )


class AppNotFound(UsageError):
    template = "{problem}. Nothing was changed. {advice}"


class ExtraMissing(UsageError):
    template = "{what} needs {missing}, not installed here. Nothing happened. Install its extra; in a checkout: pip install -e '.[{extra}]'"


class StoreUrlError(UsageError):
    template = "The database {url} cannot be used: {problem}. Nothing was changed. {advice}"


class StepNotFound(UsageError):
    template = (
        "Run {run_id!r} has no effect at step {step!r} (its effects: {known}). Nothing was changed. "
        "See its steps with `recover show {run_id}`."
    )


class StepSettled(UsageError):
    """The first durable outcome is final, whoever would like another one."""

    template = (
        "Run {run_id!r}, step {step}: it is settled as {outcome}, and that is final. Nothing was changed. "
        "What speaks against it is recorded when it arrives; see why with `recover explain {run_id} {step}`."
    )


class OverrideRefused(UsageError):
    """A person's order that lacks something or contradicts what is declared."""

    template = "{verb} of {about}: {problem}. Nothing was changed. {advice}"


class SignalRefused(UsageError):
    """What was said to a run comes too late, comes second, or does not fit."""

    template = "Run {run_id!r}: {what} was refused, because {problem}. Nothing was changed. {advice}"


class ListenerAhead(UsageError):
    """A listener goes on from a position that the run has not reached: this is another history of it."""

    template = (
        "Run {run_id!r} is at entry {head}, and the listener has heard entry {position}, so the database was put back to an earlier state. Nothing was "
        "changed. Listen from the beginning, after=0."
    )


# -- the journal -------------------------------------------------------------------------------------------------------


class JournalError(RecoveryError):
    """The store or what it holds."""

    exit_code = ExitCode.UNRESOLVED


class IllegalHistory(JournalError):
    exit_code = ExitCode.CORRUPT
    template = (
        "Run {run_id!r}, entry {seq}: {problem}. The digests are intact, so a program wrote this; nothing was sent. "
        f"Report the entry. {_RESTORE}"
    )


class SchemaMismatch(JournalError):
    exit_code = ExitCode.USAGE
    template = "The database {url} {problem}. Nothing was changed. {advice}"


class JournalCorrupt(JournalError):
    exit_code = ExitCode.CORRUPT
    template = (
        "Run {run_id!r} is corrupt at entry {seq}: {field} does not match its digest chain. Nothing was sent and nothing was "
        f"repaired, because a durable intent may have been sent. {_RESTORE}"
    )


class StoreDamaged(JournalError):
    exit_code = ExitCode.CORRUPT
    template = (
        "The database {url} is damaged ({problem}). Nothing more is sent and nothing was repaired, because a durable intent may have been "
        f"sent. {_RESTORE}"
    )


class StoreUnavailable(JournalError):
    template = "The database {url} did not answer ({problem}). {fate}; it is safe to run the same command again."


class RunForgotten(JournalError):
    exit_code = ExitCode.USAGE
    template = (
        "Run {run_id!r} was {status} and then forgotten by {by} at {at} ({reason}); the digest of its outcome is {outcome_digest}. "
        "Nothing was sent or changed, its keys stay taken and its id is not used again. Choose a new run id for new work."
    )


# -- ownership ---------------------------------------------------------------------------------------------------------


class OwnershipError(RecoveryError):
    """Somebody else works on the run; this worker changed nothing."""

    exit_code = ExitCode.OWNED


class LeaseUnavailable(OwnershipError):
    template = (
        "Run {run_id!r} is owned by {owner} at epoch {epoch}. Nothing was changed. "
        "Wait for it to finish, or run again once its lease has ended."
    )


class FencedOut(OwnershipError):
    template = (
        "Run {run_id!r} was taken over by {owner} and stands at epoch {epoch}; this worker's is {ours}. Its append was refused and kept as "
        "late evidence. Nothing more may be written here; recover the run, or ask who owns it, for the outcome."
    )


class RunLeftBehind(OwnershipError):
    """A process was forked inside a workflow, and its child would go on with the run of its parent."""

    template = (
        "Run {run_id!r} is at work in process {parent}, and process {child} was forked from it. The run goes on there and not here: nothing more was sent or "
        "written. Leave a child that was forked inside a workflow with os._exit or exec, or fork before the run."
    )


class HeadMoved(OwnershipError):
    """The journal is no longer the one that a plan was made from."""

    template = (
        "Run {run_id!r} is at head {found}, and the plan was made at {expected}. Nothing was sent or changed. "
        "Plan again with `recover --run-id {run_id} --plan`."
    )


# -- runs --------------------------------------------------------------------------------------------------------------


class RunFailed(RecoveryError):
    """The run's own recorded failure; raised again on every later look."""

    exit_code = ExitCode.FAILED
    template = "Run {run_id!r} failed on its own: {error}: {message}. That outcome is final; look with `recover show {run_id}`."


class RunUnsettled(RecoveryError):
    exit_code = ExitCode.UNRESOLVED
    template = (
        "Run {run_id!r} has no outcome yet ({status}{reason}). Nothing was changed. Continue it with `recover --run-id {run_id}`."
    )


class RunHeld(RecoveryError):
    exit_code = ExitCode.IN_DOUBT
    template = "Run {run_id!r} is held ({reason}). Nothing was sent or changed. Release it with `recover release {run_id}`."


class DecisionFailed(RecoveryError):
    """A deciding function raised. Recorded when the workflow goes on with it; a run that ends with it stays open, to decide again."""

    exit_code = ExitCode.UNRESOLVED
    template = (
        "Run {run_id!r}, step {step}: deciding failed with {error}: {message}. Nothing was decided and nothing is lost. "
        "Decide again with `recover --run-id {run_id}`."
    )


class StepInterrupted(RecoveryError):
    """A step ended without an entry, or a saga without undoing what was applied in it, and the workflow went on."""

    exit_code = ExitCode.UNRESOLVED
    template = (
        "Run {run_id!r}, step {step}: it ended without a record ({reason}), so a replay could not find its place and no later step may "
        "start. Nothing is lost. Let that error end the workflow, and continue with `recover --run-id {run_id}`."
    )


class TimerPending(RecoveryError):
    """A durable timer has not come yet, and this call may not wait for it. Nothing is wrong."""

    exit_code = ExitCode.UNRESOLVED
    template = (
        "Run {run_id!r}, step {step}: it sleeps until {next_look}. Nothing is lost, and nothing is to be done before that. "
        "From then on it continues with `recover --run-id {run_id}`."
    )


class DeadlinePassed(RecoveryError):
    """A deadline of the workflow's own came before what was begun in its scope was done. Whatever is still unknown is in doubt and not here."""

    exit_code = ExitCode.FAILED
    template = (
        "Run {run_id!r}, step {step}: the deadline {deadline} passed at {at} before it was done. {fate}. "
        "Catch this where the workflow knows another way, or start a new run."
    )


class AnswerPending(RecoveryError):
    """Nobody has answered yet, and this call may not wait for it. Nothing is wrong, and nothing is held meanwhile."""

    exit_code = ExitCode.WAITING
    template = (
        "Run {run_id!r}, step {step}: it waits for {what}{until}. Nothing is lost. Say it with `{how}`, then continue with "
        "`recover --run-id {run_id}`."
    )


class WaitLapsed(RecoveryError):
    """Raised in the workflow, which may catch it: the time for an answer is over."""

    exit_code = ExitCode.FAILED
    template = (
        "Run {run_id!r}, step {step}: {what} did not come before {until}, and comes too late from then on. Nothing was approved. "
        "Give `default=`, or catch this and go on without it."
    )


# -- replay ------------------------------------------------------------------------------------------------------------


class ReplayError(RecoveryError):
    """The workflow and its journal do not fit; stopped before acting."""

    exit_code = ExitCode.DIVERGED


class Diverged(ReplayError):
    """`seq`: the first entry that does not fit. `sides`: what it records and what the code asked for, as two documents of the same fields."""

    template = (
        "Run {run_id!r} no longer fits its journal at entry {seq}, step {step}: recorded {recorded}, attempted {attempted}. Nothing was sent. "
        "Pin it: register the version that it started with beside the new one, or put what has changed behind `run.patched(...)`. Migrate it: say "
        "what its steps are to the new code, with `@workflow.migrates(...)` and `recover change-version {run_id}`. Or fork it from a step that fits: "
        "`recover fork {run_id} NEW-RUN`."
    )


class IncompatibleVersion(ReplayError):
    exit_code = ExitCode.USAGE
    template = "Run {run_id!r}: {what} was written by a newer version ({found}; this one reads format {known}). Nothing was changed. Install a newer recovery."


class ValueUnreadable(ReplayError):
    template = (
        "{where}: the stored value at {path} does not fit {type} ({problem}). Nothing was sent or changed. "
        "Run it with the code that wrote it, make the type accept both forms, or declare its version with `@versioned` and an upcaster."
    )

    def in_entry(self, run_id: str, seq: int, step: str) -> ValueUnreadable:
        """The same, of a value in an entry of a run's journal; one that names its entry already as it is."""
        if "seq" in self.fields:
            return self
        place = f"Run {run_id!r}, entry {seq}" + (f", step {step}" if step else "")
        named = {**self.fields, "where": f"{place}, {self.fields['where']}"}
        return ValueUnreadable(**named, run_id=run_id, seq=seq, step=step)


class CheckpointError(RecoveryError):
    """A checkpoint that cannot be saved, chosen or loaded. Its branch is `recovery.checkpoint.errors`."""


class InvariantViolated(AssertionError):
    """Our bug. Stop, keep the database, report it."""
