"""`recover explore`: what is explored, how far it has come, and what was found.

Owns the reading of the argument and how the command ends. How histories are searched is `recovery.testing`'s. Invariant: what was found is told
even if the search is interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recovery import codec
from recovery.cli.output import Output
from recovery.console import exploring
from recovery.core.errors import ExitCode, ValueNotStorable
from recovery.definitions.workflow import Workflow
from recovery.testing.casting import NotCast, coloured_cast, found
from recovery.testing.exploration.exploring import Exploration, Explored
from recovery.testing.exploration.exploring import explore as search
from recovery.testing.exploration.search import NotDeterministic
from recovery.testing.exploration.sharing import YOUNG_OBJECTS
from recovery.testing.loading import ScenarioError, load
from recovery.testing.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for. jobs None: one for each processor. given: the input of a workflow, as JSON."""

    what: str
    faults: int
    recoverers: int
    seed: int
    histories_max: int | None
    jobs: int | None
    stores: tuple[str, ...]
    is_async: bool
    out: Path | None
    given: str | None = None
    cancels: bool = False


def explore(output: Output, wanted: Wanted) -> ExitCode:
    """0 if nothing is violated, 1 if something is, 2 for what cannot be explored. Raises KeyboardInterrupt after telling what was found."""
    gc.set_threshold(*YOUNG_OBJECTS)
    try:
        subject = _subject(wanted)
        watching = nullcontext() if output.as_json else exploring.Watching(output.paper())
        with watching as progress:
            explored = search(
                subject,
                faults=wanted.faults,
                recoverers=wanted.recoverers,
                seed=wanted.seed,
                histories_max=wanted.histories_max,
                jobs=wanted.jobs or os.cpu_count() or 1,
                stores=wanted.stores,
                is_async=wanted.is_async,
                cancels=wanted.cancels,
                progress=None if progress is None else progress.told,
                interruptible=True,
            )
        if explored.violations and wanted.out is not None:
            wanted.out.write_text(explored.violations[0].scenario, encoding="utf-8")
    except (ScenarioError, NotCast, NotDeterministic, OSError, ValueError, ValueNotStorable) as error:
        output.failed(type(error).__name__, str(error), int(ExitCode.USAGE), {})
        return ExitCode.USAGE
    output.answer(lambda: document(explored), lambda paper: exploring.report(paper, explored), on_one_line=True)
    if explored.interrupted:
        raise KeyboardInterrupt
    return ExitCode.SETTLED if explored else ExitCode.FAILED


def document(explored: Explored) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "histories": explored.histories,
        "merged": explored.merged,
        "states": explored.states,
        "end_states": explored.end_states,
        "faults": explored.faults,
        "recoverers": explored.recoverers,
        "seconds": round(explored.seconds, 3),
        "complete": explored.complete,
        "promises": list(explored.promises),
        "repeated": explored.repeated,
        "stores": [store.partition(":")[0] for store in explored.stores],
        "colours": list(explored.colours),
        "unanswered": list(explored.unanswered),
        "violations": [
            {"promise": one.promise, "problem": one.problem, "moves": one.moves, "scenario": one.scenario}
            for one in explored.violations
        ],
    }


def _subject(wanted: Wanted) -> Scenario | Exploration[..., Any]:
    """The first scenario of a file, or what a module has under the name. Raises ScenarioError, NotCast, OSError, ValueNotStorable."""
    path = Path(wanted.what)
    if path.suffix in {".yaml", ".yml"} or path.exists():
        _no_input(wanted, "a scenario says its input itself: in the first `run` of its timeline")
        if not path.is_file():
            raise NotCast(f"{path} is not a file. Name one scenario file, or module:name of an Exploration.")
        scenario = load(path)[0]
        coloured_cast(scenario, wanted.is_async)
        return scenario
    module, colon, name = wanted.what.partition(":")
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise NotCast(f"{wanted.what} is neither a scenario file nor module:name of an Exploration.")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    there = found(wanted.what)
    if isinstance(there, Workflow) and wanted.given is None:  # its module says what its effects come to, under whatever name
        beside = vars(sys.modules[module]).values()
        there = next((one for one in beside if isinstance(one, Exploration) and one.workflow is there), there)
    if isinstance(there, Workflow):
        return Exploration.given(there, _arguments(there, wanted.given))
    _no_input(wanted, "an Exploration has its input already; name the workflow to explore it with another one")
    if not isinstance(there, Exploration):
        problem = f"{wanted.what} is no Exploration and no workflow ({type(there).__name__})."
        raise NotCast(
            f"{problem} Name a workflow, or say what its effects come to: exploration = Exploration(workflow, ..., effects={{...}})."
        )
    return there


def _arguments(workflow: Workflow[..., Any], given: str | None) -> dict[str, Any]:
    """The arguments by name. The value itself will do where there is one parameter. Raises NotCast."""
    codecs, defaults = workflow.signature.parameters, workflow.signature.defaults
    if given is None and (missing := [name for name in codecs if name not in defaults]):
        takes = ", ".join(f"{name} ({taken.title})" for name, taken in codecs.items())
        example = ", ".join(f'"{name}": ...' for name in missing)
        raise NotCast(f"{workflow.name} takes {takes}. Give --input with a JSON object: {{{example}}}.")
    try:
        said = {} if given is None else codec.loads(given)
    except ValueError as error:
        raise NotCast(f"--input is not JSON ({error}).") from error
    if isinstance(said, dict) and (not said or set(said) <= set(codecs)):
        return said
    if len(codecs) == 1:
        return {next(iter(codecs)): said}
    raise NotCast(f"--input is not an object with the parameters of {workflow.name}: {', '.join(codecs) or 'it takes none'}.")


def _no_input(wanted: Wanted, reason: str) -> None:
    if wanted.given is not None:
        raise NotCast(f"--input is of no use for {wanted.what}: {reason}.")
