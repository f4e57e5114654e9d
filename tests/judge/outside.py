"""The judge's end of the outside service: starts it, arms its places, counts.

Owns the service's process. Knows nothing of programs. Invariant: every wait is for something that the service says, and bounded.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final, Self

SECONDS: Final = 60.0
_SERVICE: Final = Path(__file__).with_name("service.py")


class Outside:
    """One service with its own effects. `with` ends it."""

    def __init__(self, offer: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(_SERVICE), offer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reached: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.host = f"127.0.0.1:{self._answers.get(timeout=SECONDS)['port']}"

    def arm(self, place: str, act: str = "hold") -> None:
        """The next request that passes this place is held there until `release`, or has its connection reset."""
        self._ask({"arm": place, "act": act})

    def reached(self, seconds: float) -> str:
        """The armed place that a request has reached by now; "" if none has in this time."""
        try:
            return self._reached.get(timeout=seconds)
        except queue.Empty:
            return ""

    def release(self) -> None:
        """Let go what is held, and arm nothing any more."""
        self._ask({"release": True})

    def expire(self) -> None:
        """Forget every key, as after the end of its window."""
        self._ask({"expire": True})

    def effects(self) -> list[dict[str, Any]]:
        """What has really happened, in order."""
        made: list[dict[str, Any]] = self._ask({"count": True})["effects"]
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(SECONDS)
        self._process.stdout.close()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        return self._answers.get(timeout=SECONDS)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if "reached" in message:
                self._reached.put(message["reached"])
            else:
                self._answers.put(message)
