"""Publishing: what a workflow tells about itself, for people who look at the run.

Owns when a publication is durable: with whatever builds on it, at no cost of its own. Invariant: what is recorded was said once; what a replay would say in its place
does not matter, and is not compared.
"""

from __future__ import annotations

from recovery.core.entries import JSON, PUBLISHED, Decision
from recovery.core.execution import Execution


def publish(execution: Execution, name: str, value: JSON, branch: str) -> None:
    """Say something in a branch. Raises Unwind where the record has another publication, or something else, in this place."""
    step = execution.begin(PUBLISHED, branch, awaited=False)
    recorded = execution.history.steps.get(step)
    if recorded is None:
        said = {"name": name, "value": value}
        execution.say(Decision(step=step, fingerprint="", value=said, form=PUBLISHED, at_us=0))
    elif (was := execution.expected(step, recorded, PUBLISHED).value["name"]) != name:
        raise execution.diverge(step, f"a publication of {was}", f"one of {name}")
    else:
        execution.memory.leave([step])
