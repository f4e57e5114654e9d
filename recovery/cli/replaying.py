"""`recover replay`: scenarios, one line each, and the transcript of what fails.

Owns how results are counted and told while they come. What a scenario is and how it runs is `recovery.testing.replay`'s.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from recovery.cli.output import Output
from recovery.console import scenarios
from recovery.core.errors import ExitCode


def replay(output: Output, paths: list[Path], *, stores: list[str]) -> ExitCode:
    """0 if all hold, 1 if one does not. Raises what a scenario file that cannot be read raises."""
    replay_paths = import_module("recovery.testing.replay").replay_paths
    live = sys.stderr.isatty() and not output.as_json
    with scenarios.Counting(sys.stderr if live else None) as counting:

        def told(result: scenarios.Result) -> None:
            counting.one(result.name)
            if not output.as_json:
                output.paper().print(scenarios.line(result))

        results: list[scenarios.Result] = replay_paths(paths, stores=stores, on_result=told)
    failed = [result for result in results if not result.passed]
    output.answer(lambda: _document(results), lambda paper: scenarios.summary(paper, results))
    return ExitCode.FAILED if failed or not results else ExitCode.SETTLED


def _document(results: list[scenarios.Result]) -> dict[str, Any]:
    told = [
        {
            "path": str(result.path), "name": result.name, "store": result.store, "colour": result.colour, "passed": result.passed,
            "problems": list(result.problems), "transcript": result.transcript, "seconds": result.seconds,
        }
        for result in results
    ]  # fmt: skip
    held = sum(result.passed for result in results)
    return {"scenarios": told, "passed": held, "failed": len(results) - held}
