"""`recover demo`: the canonical incident with real processes, real HTTP, a real database and a real SIGKILL.

Owns the script of the demonstration. Invariant: each claim is checked by asking the service or reading the journal, and the command ends
with 0 only if all of them hold.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from recovery.cli.output import Output
from recovery.cli.staging import stage
from recovery.console.story import Claim, Scene, ending, scene
from recovery.core.errors import ExitCode, ExtraMissing
from recovery.core.wording import counted

if TYPE_CHECKING:
    from recovery.console.paper import Paper
    from recovery.examples.inventory.process import Inventory

RUN: Final = "incident-7"
KEY: Final = "reservation-1"
SKU: Final = "FILTER-A"
STOCK: Final = 10
UNITS: Final = 2
APP: Final = "recovery.examples.incident:engine"

_WITHOUT: Final = (
    "An engine that keeps only results finds none for this step and runs it again: with a new key, four units are gone."
)
_SENTENCE: Final = "The original reservation came back, and two units are gone, once."
_MODULES: Final = ("httpx", "starlette", "uvicorn")


def demo(output: Output, *, keep: Path | None) -> ExitCode:
    """Tell the incident. Raises ExtraMissing, and ServiceFailed where the service does not start."""
    if missing := [name for name in _MODULES if find_spec(name) is None]:
        raise ExtraMissing(what="The demo", missing=" and ".join(missing), extra="demo")
    told: list[Scene] = []
    paper = None if output.as_json else output.paper()
    with ExitStack() as stack:
        directory = stack.enter_context(stage()) if keep is None else keep
        directory.mkdir(parents=True, exist_ok=True)
        for happened in _Stage(directory.absolute(), stack, paper).scenes():
            told.append(happened)
            if paper is not None:
                paper.print(scene(paper, len(told), happened))
    output.answer(lambda: _document(told), lambda _paper: ending(told, _SENTENCE))
    if keep is not None and not output.as_json:
        output.say(f"The databases are in {keep}: recover show {RUN} --db {_url(keep / 'journal.db')}")
    return ExitCode.SETTLED if all(happened.holds for happened in told) else ExitCode.BUG


def _url(path: Path) -> str:
    """Quoted: a directory may have any name."""
    return f"sqlite:///{quote(str(path))}"


def _document(told: list[Scene]) -> dict[str, Any]:
    scenes = [
        {
            "title": of.title,
            "lines": list(of.lines),
            "command": of.command,
            "transcript": of.transcript,
            "claims": [{"text": c.text, "holds": c.holds, "expected": c.expected, "found": c.found} for c in of.claims],
        }
        for of in told
    ]
    return {"scenes": scenes, "holds": all(of.holds for of in told)}


@dataclass(slots=True)
class _Stage:
    """The processes and files of one demonstration."""

    directory: Path
    stack: ExitStack
    paper: Paper | None
    inventory: Inventory = field(init=False)

    @property
    def journal_url(self) -> str:
        return _url(self.directory / "journal.db")

    def scenes(self) -> Iterator[Scene]:
        yield self._open()
        yield self._kill()
        yield self._doubt()
        first, scene = self._recover()
        yield scene
        yield self._again(first)

    def _open(self) -> Scene:
        from recovery.examples.inventory.process import serve

        database = _url(self.directory / "inventory.db")
        self.inventory = self.stack.enter_context(serve(database, {SKU: STOCK}, pause="after-commit"))
        return Scene(
            "An inventory service that keeps receipts",
            (f"process {self.inventory.process.pid}, {self.inventory.url}, a database of its own",),
            (self._in_stock(STOCK),),
        )

    def _kill(self) -> Scene:
        worker = subprocess.Popen(  # noqa: S603  # our own interpreter and module
            [sys.executable, "-m", "recovery.examples.incident", RUN],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        with worker:
            try:
                self.inventory.wait_until_paused(KEY)
            finally:
                worker.kill()
            heard, _ = worker.communicate()
        return Scene(
            "A worker reserves two units, and dies before it hears",
            (
                f"process {worker.pid} approved the repair and asked for {UNITS} units of {SKU} under the key {KEY}",
                "the service committed; its reply was still on the way when the worker was killed",
            ),
            (
                Claim("the worker was killed by SIGKILL", -9, worker.returncode),
                Claim("it printed no outcome", "", heard),
                self._in_stock(STOCK - UNITS),
            ),
        )

    def _doubt(self) -> Scene:
        _, entries = self._journal()
        last = entries[-1]
        intent = last["body"]
        attempt = intent.get("attempt", {})
        return Scene(
            "What the journal knows",
            (
                f"the last of its {len(entries)} entries: {last['kind']} of {intent.get('effect')} in {intent.get('environment')}",
                f"key {intent.get('key')}, attempt {attempt.get('number')}, no answer",
            ),
            (
                Claim("it ends with an intent and its first attempt", ("intent", 1), (last["kind"], attempt.get("number"))),
                Claim(
                    "restoring it would not bring the units back: whether they are gone cannot be seen in it", [], _answers(entries)
                ),
            ),
            aside=_WITHOUT,
        )

    def _recover(self) -> tuple[dict[str, Any], Scene]:
        command = ["recover", "--run-id", RUN, "--app", APP]
        ended = self._typed(command, show=True)
        answer = self._answer(command)
        receipt = self._receipt()
        return answer, Scene(
            "Recover",
            command=" ".join(command),
            transcript=ended.stdout + ended.stderr,
            claims=(
                Claim("it ended with 0: settled", 0, ended.returncode),
                Claim("the outcome is the reservation that the service made for the dead worker", receipt, _reservation(answer)),
                self._in_stock(STOCK - UNITS),
                self._once(),
            ),
        )

    def _again(self, first: dict[str, Any]) -> Scene:
        command = ["recover", "--run-id", RUN, "--app", APP]
        before, entries = self._journal()
        ended = self._typed(command, show=True)
        again = self._answer(command)
        after, _ = self._journal()
        return Scene(
            "Recover once more",
            command=" ".join(command),
            transcript=ended.stdout + ended.stderr,
            claims=(
                Claim("the same outcome", first.get("outcome"), again.get("outcome")),
                Claim(f"the journal is as it was: {counted(len(entries), 'entry', 'entries')}, head {before[:12]}", before, after),
                self._in_stock(STOCK - UNITS),
                self._once(),
            ),
        )

    # -- asking --------------------------------------------------------------------------------------------------------

    def _in_stock(self, units: int) -> Claim:
        return Claim(f"the service says: {units} units of {SKU} in stock", units, self.inventory.stock(SKU))

    def _once(self) -> Claim:
        return Claim(f"the service says: {KEY} was executed once", 1, self.inventory.executions(KEY))

    def _receipt(self) -> Any:
        from recovery.examples.inventory.client import Applied, InventoryClient, Reservation

        with InventoryClient(self.inventory.url) as client:
            known = client.look_up(KEY)
        if isinstance(known, Applied) and isinstance(known.value, Reservation):
            return {"id": known.value.id, "sku": known.value.sku, "units": known.value.units}
        return None

    def _journal(self) -> tuple[str, list[dict[str, Any]]]:
        """Head digest and entries, as `recover show --json` tells them."""
        shown = self._typed(["recover", "show", RUN, "--json"])
        document = json.loads(shown.stdout)
        return document.get("head_digest", ""), document.get("entries", [])

    def _answer(self, command: list[str]) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._typed([*command, "--json"]).stdout)
        return answer

    def _typed(self, command: list[str], *, show: bool = False) -> subprocess.CompletedProcess[str]:
        """The command line as a person would type it, of this very installation."""
        return subprocess.run(  # noqa: S603  # our own interpreter and module
            [sys.executable, "-m", "recovery", *command[1:]],
            env=self._environment(show=show),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def _environment(self, *, show: bool = False) -> dict[str, str]:
        own = {"RECOVERY_DB": self.journal_url, "INVENTORY_URL": self.inventory.url}
        kept = {name: text for name, text in os.environ.items() if name not in {"RECOVERY_APP", "RECOVERY_CRASH_AT", "FORCE_COLOR"}}
        if not show or self.paper is None or not self.paper.terminal:
            return kept | own
        return kept | own | {"FORCE_COLOR": "1", "COLUMNS": str(self.paper.inner_width)}


def _reservation(answer: dict[str, Any]) -> Any:
    value = (answer.get("outcome") or {}).get("value")
    return value.get("reservation") if isinstance(value, dict) else None


def _answers(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["kind"] for entry in entries if entry["kind"] in {"observation", "settled"}]
