"""Programs: what is judged, each behind a command of a few lines, and their processes.

    COMMAND run WORKFLOW_ID        do the work, or continue it
    COMMAND recover WORKFLOW_ID    after a crash: bring it to its end, or say what is missing

The command prints one line of JSON, {"claim": CLAIM, ...}: `outcome` with the reservation's id and units, `in doubt`, `refused` (this call did
nothing, because of what it asked for), `later`, or `error`. The environment says where the service is and what it offers (JUDGE_HOST,
JUDGE_OFFER), a directory of the program's own (JUDGE_STATE), and the numbers of `Terms`.

Owns the processes. Invariant: none outlives its play.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

ADAPTERS: Final = Path(__file__).with_name("adapters")
_STEPPED: Final = Path(__file__).with_name("stepped")
ENDS_SECONDS: Final = 60.0
"""A process that has said nothing by then never ends."""


class Program(NamedTuple):
    """name: how it is called here. distribution: what its version is asked of."""

    name: str
    distribution: str
    adapter: str
    python: str = sys.executable

    @property
    def command(self) -> list[str]:
        return [self.python, str(ADAPTERS / self.adapter)]

    def version(self) -> str:
        """What is installed there; "" if it is not."""
        if not self.distribution:
            return "-"
        if not Path(self.python).exists():
            return ""
        asking = f"import importlib.metadata as m; print(m.version({self.distribution!r}))"
        return subprocess.run([self.python, "-c", asking], capture_output=True, text=True, check=False).stdout.strip()


OURS: Final = Program("recovery", "recovery", "with_recovery.py")
BLIND: Final = Program("blind", "", "blind.py")
FORGETFUL: Final = Program("forgetful", "", "forgetful.py")


def peers(python: str) -> list[Program]:
    """The peers, installed in an environment of their own."""
    return [
        Program("sakrit", "sakrit", "with_sakrit.py", python),
        Program("call4agents", "call4agents", "with_call4agents.py", python),
        Program("effect-ledger", "effect-ledger", "with_effect_ledger.py", python),
        Program("DBOS", "dbos", "with_dbos.py", python),
        Program("LangGraph", "langgraph", "with_langgraph.py", python),
    ]


class Terms(NamedTuple):
    """What a program is told, in seconds. settle: the service's word on how long after its sender's deadline a request may still act."""

    units: int = 2
    timeout_seconds: float = 30.0
    window_seconds: float = 86_400.0
    settle_seconds: float = 1.0
    lease_seconds: float = 1.0
    workers_stopped: int = 1
    process: int = 1

    def variables(self) -> dict[str, str]:
        return {f"JUDGE_{name.upper()}": str(value) for name, value in self._asdict().items()}


class Claim(NamedTuple):
    """What a program said, and how many units it had been asked for."""

    kind: str  # outcome, in doubt, refused, later, error, or: silent, killed, never ends
    units_asked: int
    id: str = ""
    units: int = 0
    why: str = ""


@dataclass
class Child:
    """One process of a program."""

    process: subprocess.Popen[str]
    units_asked: int

    def ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """It, and whatever it started: they are a process group."""
        if not self.ended():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.killpg(self.process.pid, signal.SIGCONT)

    def claim(self, seconds: float = ENDS_SECONDS) -> Claim:
        """What it says, when it has ended."""
        try:
            said, problem = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return Claim("never ends", self.units_asked)
        lines = [line for line in said.splitlines() if line.startswith('{"claim"')]
        if lines:
            return _claim(json.loads(lines[-1]), self.units_asked)
        return Claim(
            "silent", self.units_asked, why=(problem.strip().splitlines() or [f"exit {self.process.returncode}"])[-1][:300]
        )


def start(program: Program, verb: str, host: str, offer: str, state: Path, terms: Terms, shift_hours: int = 0) -> Child:
    """A process of the program; its wall clock (not its monotonic one) shifted by so many hours."""
    where = {"JUDGE_HOST": host, "JUDGE_OFFER": offer, "JUDGE_STATE": str(state)}
    command = [*program.command, verb, "workflow-1"]
    environment = os.environ | where | terms.variables()
    if shift_hours:
        command = ["faketime", "-f", f"{shift_hours:+d}h", *command]
        environment |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "PYTHONPATH": str(_STEPPED)}
    process = subprocess.Popen(
        command, env=environment, cwd=state, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    return Child(process, terms.units)


def _claim(said: dict[str, Any], units_asked: int) -> Claim:
    return Claim(said["claim"], units_asked, str(said.get("id", "")), int(said.get("units", 0)), str(said.get("why", "")))
