"""`recover replay`: scenarios, one line each, and the transcript of what fails.

Owns what the command counts and how it ends. What a scenario is and how it is played is `recovery.testing.replay`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recovery.cli.output import Output
from recovery.console import scenarios
from recovery.core.errors import ExitCode
from recovery.testing.replay import ScenarioResult, files, replay_paths


def replay(output: Output, paths: list[Path], *, stores: list[str]) -> ExitCode:
    """0 if all hold, 1 if one does not, 2 if a file is no scenario or there are none. Raises what a store that cannot be used raises."""
    if output.as_json:
        results = replay_paths(paths, stores=stores)
    else:
        with scenarios.Counting(output.paper(), len(files(paths)) * len(stores)) as counting:
            results = replay_paths(paths, stores=stores, on_result=counting.one)
    output.answer(lambda: _document(results), lambda paper: scenarios.summary(paper, results))
    if not results or any(not result.colour for result in results):  # what was never played has no colour
        return ExitCode.USAGE
    return ExitCode.SETTLED if all(result.passed for result in results) else ExitCode.FAILED


def _document(results: list[ScenarioResult]) -> dict[str, Any]:
    told = [
        {
            "path": str(result.path),
            "name": result.name,
            "store": result.store,
            "colour": result.colour,
            "passed": result.passed,
            "problems": list(result.problems),
            "transcript": result.transcript,
            "seconds": result.seconds,
        }
        for result in results
    ]
    held = sum(result.passed for result in results)
    return {"scenarios": told, "passed": held, "failed": len(results) - held}
