"""Errors about checkpoints: a branch of the package's tree, below `CheckpointError`.

Owns what they say. Fields are keyword-only plain values; an error survives pickling, says what became of the current state, and ends
with the next step.
"""

from __future__ import annotations

from recovery.core.errors import CheckpointError as CheckpointError
from recovery.core.errors import ExitCode


class WrongKind(CheckpointError):
    """One kind of state was about to be used as another."""

    exit_code = ExitCode.USAGE
    template = "{name} is of the kind {found}, and {wanted} was asked for. Nothing was loaded or saved. It may be used to {use}."


class CheckpointInvalid(CheckpointError):
    """Something about a checkpoint is not what it must be. `reason` is a word of a fixed list, `where` the place, `problem` the facts."""

    exit_code = ExitCode.CORRUPT
    template = (
        "{where}: {problem} ({reason}). Nothing was loaded or replaced. Use an earlier checkpoint; "
        "`recover checkpoint verify` says which ones are whole."
    )


class LimitExceeded(CheckpointError):
    """More than was allowed to be read; refused before it was read or allocated."""

    exit_code = ExitCode.USAGE
    template = "{where}: {what} is {found}, and {limit} is the limit. Nothing was loaded or replaced. If it is meant to be so large, raise that field of Limits."


class UnknownFormat(CheckpointError):
    """Written by a newer version, or by something else."""

    exit_code = ExitCode.USAGE
    template = (
        "{where}: the format is {found}, and this version reads {known}. Nothing was loaded or changed. Install a newer recovery."
    )


class NoStore(CheckpointError):
    """A path that is neither a checkpoint store nor a checkpoint."""

    exit_code = ExitCode.USAGE
    template = "{path} is no checkpoint store: {problem}. Nothing was made or changed. {advice}"


class StoreRefused(CheckpointError):
    """The file system refused a store to be looked at or tidied up. A save says so itself: SaveFailed."""

    exit_code = ExitCode.UNRESOLVED
    template = "{store}: the file system refused {where} ({problem}). {fate} See to the permissions or the disk, then run it again."


class NotACandidate(CheckpointError):
    """A directory that cannot be chosen, whatever its name says."""

    exit_code = ExitCode.USAGE
    template = "{name} in {store} is no checkpoint that can be used: {problem}. Nothing was loaded or changed. {advice}"


class NothingToRestore(CheckpointError):
    """No candidate of that kind is left."""

    exit_code = ExitCode.USAGE
    template = "{store} holds no {kind} checkpoint that can be restored ({rejected}). Nothing was changed. Begin anew, or name another store."


class StoreBusy(CheckpointError):
    """Another writer has the store."""

    exit_code = ExitCode.OWNED
    template = (
        "{store} is being written by somebody else, and still was after {seconds} s. Nothing was saved or changed. "
        "Wait until that save has ended, or use a store of its own."
    )


class SaveUnderWay(CheckpointError):
    """A save in the background was asked for while another one had not ended."""

    exit_code = ExitCode.OWNED
    template = (
        "{store}: the save of step {step} is still under way. Nothing of this call was saved or changed. Skip this save, save less often, or give it "
        "more patience."
    )


class CommitLost(CheckpointError):
    """Two writers saved at once, and the other one was quicker."""

    exit_code = ExitCode.OWNED
    template = (
        "{store}: another writer committed sequence {sequence} first. What was saved here was not committed and is removed. Two writers are at work "
        "on one run: stop one of them, then load the latest checkpoint."
    )


class SpaceMissing(CheckpointError):
    """Seen before anything was written."""

    exit_code = ExitCode.UNRESOLVED
    template = (
        "{store}: saving needs {needed} bytes and {free} are free. Nothing was written and the current checkpoint is untouched. "
        "Make room, keep fewer checkpoints, or save elsewhere."
    )


class SaveFailed(CheckpointError):
    """The disk refused. `committed`: whether the new checkpoint exists all the same."""

    exit_code = ExitCode.UNRESOLVED
    template = "{store}: saving failed at {step} ({problem}). {fate} The earlier checkpoints are untouched. {advice}"


class WritersMissing(CheckpointError):
    """A sharded save whose deadline has passed."""

    exit_code = ExitCode.UNRESOLVED
    template = (
        "{store}: after {seconds} s these writers had not handed in their shard: {missing}. Nothing was committed and the earlier "
        "checkpoints are untouched. Look at those workers, then save again."
    )


class WriterRefused(CheckpointError):
    """A process that would write a shard of a save that is not waiting for it."""

    exit_code = ExitCode.OWNED
    template = (
        "{store}: writer {writer} of {attempt} is refused: {problem}. Nothing of it is saved, and the checkpoints that are there are untouched. "
        "Ask whoever coordinates for the next save."
    )


class RanksMissing(CheckpointError):
    """A rank waited for another one until its deadline, in a save or load of a distributed job."""

    exit_code = ExitCode.UNRESOLVED
    template = (
        "{store}: {what}: after {seconds} s nothing had come from {missing}. {fate} "
        "Look at that rank, then start the job again from the last checkpoint."
    )


class RankFailed(CheckpointError):
    """Another rank of a distributed job could not do its part of a save or load, so that nobody does."""

    exit_code = ExitCode.UNRESOLVED
    template = (
        "{store}: {what}: {who} {rank} failed ({problem}). Nothing was committed or loaded, and the earlier checkpoints are untouched. "
        "Look at that {who}, then try again."
    )


class EffectsUnreconciled(CheckpointError):
    """Effects after the checkpoint's journal position have no outcome yet, or nobody asked for them."""

    exit_code = ExitCode.IN_DOUBT
    template = "Run {run_id!r}: {what}. None may be sent again, since each may have happened. Settle them with `recover --run-id {run_id}`."


class PositionUnknown(CheckpointError):
    """A checkpoint names a place in a journal that this journal does not have."""

    exit_code = ExitCode.CORRUPT
    template = (
        "Run {run_id!r}: the checkpoint was captured after {position} entries of its journal, and {problem}. Nothing was restored. Effects of a time that "
        "this journal does not know may have happened: find the journal that belongs to the checkpoint, or declare this one restored "
        "with `recover restored` and restore an earlier checkpoint."
    )


class TrainerRefused(CheckpointError):
    """A trainer that cannot be verified as it was given."""

    exit_code = ExitCode.USAGE
    template = "{what} {name!r}: {problem}. Nothing was run. {advice}"


class VerificationBroken(CheckpointError):
    """A process of a verification ended before it had done its part, so there is no verdict."""

    exit_code = ExitCode.UNRESOLVED
    template = "The process that {doing} ended with {code}: {last}. There is no verdict, and nothing of yours was changed. {advice}"
