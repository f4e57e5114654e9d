"""Saving in the background: a state is copied, the training goes on, and a thread makes the copy durable.

Owns the copy, the one save under way, and what is said when it fails. Must not know how a save is done. Invariants: what is saved is the state at the call, whatever
happens to the arrays afterwards; there is never more than one copy; a failure is told by the next call at the latest, and the checkpoints
before it are untouched.

A save in the background hides the wait and not the traffic: until it is durable, the checkpoint before it is the one that a crash goes back to.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from typing import Final, Self

import numpy as np

from recovery import logs
from recovery.checkpoint.draft import drafted
from recovery.checkpoint.errors import SaveUnderWay
from recovery.checkpoint.manifest import JournalPosition
from recovery.checkpoint.saving import Record
from recovery.checkpoint.scanning import Candidate
from recovery.checkpoint.shards import Array
from recovery.checkpoint.store import CheckpointStore
from recovery.checkpoint.validating import Capture

_log: Final = logs.logger("checkpoint")

Alarm = Callable[[BaseException], None]
"""Told of a save that failed, in the thread of that save."""


Work = Callable[[], Candidate]


class OneAtATime:
    """Saves in a thread, never two at once. For one thread, which trains; use it in a `with`, or `close` it.

    patience: how long a save waits for the one before it; None: until that has ended; zero: not at all. on_failure: called as soon as a save has failed.
    latest: the last checkpoint that was committed by this object. step: of the save under way, or of the last one.

    The thread of a save keeps the interpreter from ending before the save has.
    """

    def __init__(self, where: str, *, patience: timedelta | None = None, on_failure: Alarm | None = None) -> None:
        self.latest: Candidate | None = None
        self._where = where
        self._patience_seconds = None if patience is None else patience.total_seconds()
        self._on_failure = on_failure
        self._thread: threading.Thread | None = None
        self.step = 0
        self._failure: BaseException | None = None  # not told yet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
            return
        self._join(None)  # the error of the block is the one to raise; an untold failure is in the log
        if self._failure is not None:
            error.add_note(f"A save in the background had failed, too: {self._failure}")

    @property
    def busy(self) -> bool:
        """Whether a save is under way."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self) -> None:
        """Wait for the save before the next one. Raises what that one failed of; SaveUnderWay when patience has run out."""
        if not self._join(self._patience_seconds):
            raise SaveUnderWay(store=self._where, step=self.step)
        if self._failure is not None:
            self._failure.add_note("Nothing of the call that tells it was saved; it can be repeated.")
        self._tell()

    def start(self, step: int, work: list[Work]) -> Future[Candidate]:
        """Do the one piece of work in a thread, after `begin`. The list is emptied, so that what the work holds goes when it ends."""
        future: Future[Candidate] = Future()
        self.step = step
        self._thread = threading.Thread(target=copy_context().run, args=(self._run, step, work, future), name="checkpoint-save")
        self._thread.start()
        return future

    def wait(self) -> Candidate | None:
        """Until nothing is under way. The last checkpoint that was committed. Raises what the last save failed of, once."""
        self._join(None)
        self._tell()
        return self.latest

    def close(self) -> None:
        """`wait`."""
        self.wait()

    def _join(self, seconds: float | None) -> bool:
        """Whether nothing is under way, after waiting for so long."""
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                return False
            self._thread = None
        return True

    def _tell(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self, step: int, work: list[Work], future: Future[Candidate]) -> None:
        """In the thread. Nothing here keeps what the work holds, whoever keeps the future or the error."""
        try:
            saved = work.pop()()
        except BaseException as error:  # noqa: BLE001  # told by the alarm, the future and the next call
            forget_frames(error)
            error.add_note(f"It was the save of step {step}, in the background.")
            _log.error("a save in the background failed", store=self._where, step=step, problem=str(error))
            self._failure = error
            self._alarm(error)
            future.set_exception(error)
        else:
            self.latest = saved
            future.set_result(saved)

    def _alarm(self, error: BaseException) -> None:
        if self._on_failure is None:
            return
        try:
            self._on_failure(error)
        except Exception as also:  # noqa: BLE001  # an alarm that is broken must not hide what it was raised for
            error.add_note(f"The alarm failed, too: {also!r}")
            _log.error("the alarm for a failed save failed", problem=repr(also))


class BackgroundSaver(OneAtATime):
    """Saves into a store, one state at a time, beside whatever its caller does."""

    def __init__(self, store: CheckpointStore, *, patience: timedelta | None = None, on_failure: Alarm | None = None) -> None:
        super().__init__(store.where, patience=patience, on_failure=on_failure)
        self._store = store

    def save(
        self,
        capture: Capture,
        *,
        step: int | None = None,
        journal: JournalPosition | None = None,
        fingerprint: str = "",
        record: Record | None = None,
    ) -> Future[Candidate]:
        """Copy a state and begin to save it. What the arguments mean: `CheckpointStore.save`; `record` is called in the save's thread.

        On return the arrays are the caller's again. Arrays that are read-only and own their memory, such as those of `Learning`, are not copied. The future
        is for whoever wants to wait; nobody has to look at it.

        Raises what the save before it failed of, and then begins nothing; SaveUnderWay when patience has run out; CheckpointInvalid for what cannot be saved.
        """
        self.begin()
        draft = drafted(capture, self._store.place.limits, step=step, journal=journal, fingerprint=fingerprint)
        held = [replace(draft, arrays=copied(draft.arrays))]
        return self.start(draft.step, [lambda: self._store.write(held.pop(), record=record)])


def copied(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays that nobody else can change: copies, but for those that are read-only and own their memory."""
    return {
        name: np.array(array, copy=True, order="K") if array.flags.writeable or not array.flags.owndata else array
        for name, array in arrays.items()
    }


def forget_frames(error: BaseException) -> None:
    """Drop the local variables of the frames that an error, and those that led to it, came through: one of them is the copy of the state."""
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        traceback.clear_frames(each.__traceback__)
        left += [each.__cause__, each.__context__]
