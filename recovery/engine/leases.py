"""Leases: one thread that keeps the runs of this process alive, outside user code.

Owns the renewal of held runs. A lease is about liveness only: whoever loses it is stopped by the fence of the next append, not here.
Invariant: a run is renewed from `hold` to `drop` and never after.
"""

from __future__ import annotations

import threading
from datetime import timedelta

from recovery.core.errors import RecoveryError
from recovery.logs import logger
from recovery.ports import Journal, RunRow


class Leases:
    """Renews every held run each `every`. The thread starts with the first run and ends when `close` is called."""

    def __init__(self, journal: Journal, every: timedelta) -> None:
        self._journal = journal
        self._every_seconds = every.total_seconds()
        self._held: dict[str, RunRow] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, run: RunRow) -> None:
        """Keep this run's lease alive from now on."""
        with self._lock:
            self._held[run.run_id] = run
            if self._thread is None:
                self._ended.clear()
                self._thread = threading.Thread(target=self._renew_until_closed, name="recovery-leases", daemon=True)
                self._thread.start()

    def drop(self, run_id: str) -> None:
        """Renew this run no more."""
        with self._lock:
            self._held.pop(run_id, None)

    def close(self) -> None:
        """End the thread. A later `hold` starts another."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._ended.set()
        if thread is not None:
            thread.join()

    def _renew_until_closed(self) -> None:
        while not self._ended.wait(self._every_seconds):
            with self._lock:
                held = list(self._held.values())
            for run in held:
                self._renew(run)

    def _renew(self, run: RunRow) -> None:
        assert run.owner is not None
        try:
            kept = self._journal.renew(run.run_id, run.owner.token, run.epoch)
        except RecoveryError as error:
            logger(__name__).warning("lease not renewed", run_id=run.run_id, problem=type(error).__name__)
            return
        if not kept:
            self.drop(run.run_id)
            logger(__name__).warning("run was claimed by another worker", run_id=run.run_id, epoch=str(run.epoch))
