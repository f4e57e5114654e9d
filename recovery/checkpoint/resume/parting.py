"""Starting the parts of a verification: in fresh processes, or in this one.

Owns processes and pipes. Must not know what is compared. Invariant: every process that was started has ended when this returns, and its
failure is told with the last thing that it said.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from recovery.checkpoint import errors
from recovery.checkpoint.errors import VerificationBroken
from recovery.checkpoint.resume.resuming import REFUSED, Order, carry_out
from recovery.checkpoint.resume.segments import Beat
from recovery.checkpoint.resume.tolerance import Contract
from recovery.core import errors as core

_SECONDS: Final = 0.2  # between two looks whether a silent process still lives
_PLACE: Final = re.compile(r'File "([^"]+)", line (\d+)')  # as tracebacks name it


def here(order: Order, contract: Contract, beat: Beat) -> dict[str, Any]:
    """Carry it out in this process: for functions that no other process could import. What is hidden in the process stays hidden."""
    carry_out(order, beat, contract)
    return _answer(order)


def fresh(order: Order, doing: str, contract: Contract, beat: Beat) -> dict[str, Any]:
    """Carry it out in a process of its own, which gets the order and nothing else of this one. Raises VerificationBroken; `doing` says what."""
    read, write = os.pipe()
    try:
        path = Path(order.answer).with_suffix(".order")
        path.write_text(json.dumps({**asdict(order), "beats": write, "contract": contract.to_json()}), encoding="utf-8")
        with tempfile.TemporaryFile() as said:
            code = _process(path, write, read, said, beat)
            if code != 0:
                raise VerificationBroken(doing=doing, code=code, last=_last(said), advice="Correct the trainer, and verify again.")
    finally:
        os.close(read)
        os.close(write)
    return _answer(order)


def _process(order: Path, write: int, read: int, said: IO[bytes], beat: Beat) -> int:
    paths = [path or os.getcwd() for path in sys.path]  # noqa: PTH109  # a string among strings
    with subprocess.Popen(  # noqa: S603  # our own interpreter and module
        [sys.executable, "-m", "recovery.checkpoint.resume.resuming", str(order)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.STDOUT,
        pass_fds=(write,),
    ) as process:
        try:
            while process.poll() is None:
                _listen(read, beat)
        except BaseException:  # an interrupt, too, ends the child; raised again
            process.kill()
            raise
    while _listen(read, beat, seconds=0.0):
        pass
    return process.returncode


def _listen(read: int, beat: Beat, seconds: float = _SECONDS) -> bool:
    """Beats that have come; waits a little for the first."""
    with selectors.DefaultSelector() as selector:  # plain `select` refuses the files of a process that has more than a thousand
        selector.register(read, selectors.EVENT_READ)
        ready = selector.select(seconds)
    if ready:
        for _ in os.read(read, 4096):
            beat()
    return bool(ready)


def _answer(order: Order) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(Path(order.answer).read_text(encoding="utf-8"))
    if refused := told.get(REFUSED):
        kind = getattr(errors, refused["type"], None) or getattr(core, refused["type"])
        raise kind(**refused["fields"])
    return told


def _last(said: IO[bytes]) -> str:
    """The last line that the process said, where Python names the error that ended it; and the last place that it named."""
    said.seek(0)
    lines = [line.strip() for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return "it said nothing"
    places = [found for line in lines[:-1] if (found := _PLACE.match(line))]
    where = f" ({Path(places[-1][1]).name}, line {places[-1][2]})" if places else ""
    return lines[-1].rstrip(".")[:1000] + where
