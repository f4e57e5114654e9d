"""The agent app: a model chooses, tools act, a person approves what is expensive. Killed anywhere, it goes on where it was.

Owns nothing but the example: one loop in both colours over the inventory service's effects, and engines for
`recover --app recovery.examples.agent:engine`. Copy it, and put your client in the place of `ask` and your effects in the place of TOOLS.
`INVENTORY_URL`, `RECOVERY_DB` and `AGENT_SCRIPT` say where the service, the journal and the model's answers are.

What keeps it safe, line by line: the model's answer is a decision, so that it is asked once and never again; a tool call is an effect whose key the
engine makes, so that a crash repeats neither; an approval names the fingerprint of the very call that it approves, and lapses.

`python -m recovery.examples.agent RUN_ID GOAL` is a worker.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from recovery import Applied, AsyncEngine, AsyncRun, Bound, Effect, Engine, Rejected, Run, errors, workflow
from recovery.examples.incident import DATABASE, inventory_service, reserve, reserve_async

TURNS_MAX: Final = 20
"""Answers of the model per run: a model that never comes to an end must not spend for ever."""

UNITS_FREE: Final = 4
"""Units that may be reserved without asking anybody."""

APPROVERS: Final = ("shift lead", "plant manager")


@dataclass(frozen=True)
class ToolCall:
    """What the model wants done. Its arguments are whatever it wrote: `Effect.parse` says whether they fit."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Message:
    role: str  # user, model or tool
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)


@dataclass(frozen=True)
class Approval:
    """What a person answers, with `recover signal RUN approval --value '{"approved": true}' --by 'shift lead' --about FINGERPRINT`."""

    approved: bool
    note: str = ""


@dataclass(frozen=True)
class Tool:
    """An effect that the model may choose. `expensive`: which calls of it a person must approve."""

    name: str
    effect: Effect[..., Any]
    expensive: Callable[[dict[str, Any]], bool] = lambda _arguments: False

    @property
    def schema(self) -> dict[str, Any]:
        """What a model is told of it."""
        return {"name": self.name, "parameters": self.effect.json_schema()}


def many(arguments: dict[str, Any]) -> bool:
    return bool(arguments["units"] > UNITS_FREE)


def ask(messages: list[Message]) -> Message:
    """One request to a model. Here it reads a script, one answer a line, and notes that it was asked; put your client in its place.

    Its failures may be retried inside, as often as you like: asking again changes nothing outside. One that leaves it leaves the run open."""
    script = Path(os.environ.get("AGENT_SCRIPT", "script.jsonl"))
    turn = sum(message.role == "model" for message in messages)
    with script.with_suffix(".asked").open("a", encoding="utf-8") as asked:
        asked.write(f"{turn}\n")
    said = json.loads(script.read_text("utf-8").splitlines()[turn])
    return Message("model", said.get("text", ""), [ToolCall(**call) for call in said.get("calls", [])])


class NoEnd(Exception):
    """The model came to no end within its turns. What it had done stays done, and is in the journal."""


def parsed(tools: dict[str, Tool], call: ToolCall) -> tuple[Tool, Bound[Any]] | str:
    """The effect that a tool call means, or what is wrong with the call: nothing was sent then, and the model can be told."""
    if call.name not in tools:
        return f"there is no tool {call.name!r}; there are: {', '.join(sorted(tools))}"
    try:
        return tools[call.name], tools[call.name].effect.parse(call.arguments)
    except errors.ValueNotStorable as mistake:
        return str(mistake)


def told(came: Applied[Any] | Rejected) -> str:
    """What the model hears of an outcome. A declared rejection is an outcome, too."""
    return f"done: {came.value}" if isinstance(came, Applied) else f"refused: {came.error}"


def declined(approval: Approval | None) -> str:
    return f"not approved: {approval.note or 'no reason given'}" if approval else "not approved in time"


NOT_DONE: Final = "not done: the approval had lapsed, or a person found that it did not happen"
"""What the model hears of a call that is proven not executed. Uncaught, `errors.NotExecuted` would end the run for ever."""

ABOUT_APPROVALS: Final[dict[str, Any]] = {"by": APPROVERS, "timeout": timedelta(hours=12), "valid_for": timedelta(hours=1)}


# -- def ---------------------------------------------------------------------------------------------------------------

TOOLS: Final = {tool.name: tool for tool in (Tool("reserve", reserve, expensive=many),)}


@workflow
def agent(run: Run, goal: str) -> str:
    """Reach a goal with the tools."""
    messages = [Message("user", goal)]
    for turn in range(TURNS_MAX):
        reply = run.decide("model", ask, messages)
        run.publish("turn", {"turn": turn, "text": reply.text, "calls": [call.name for call in reply.calls]})
        messages.append(reply)
        if not reply.calls:
            return reply.text
        messages += [Message("tool", act(run, call)) for call in reply.calls]
    raise NoEnd(f"no answer within {TURNS_MAX} turns")


def act(run: Run, call: ToolCall) -> str:
    """One tool call, and what the model is to hear of it."""
    found = parsed(TOOLS, call)
    if isinstance(found, str):
        return found
    tool, bound = found
    if tool.expensive(bound.arguments):
        run.log.info("waits for an approval", tool=call.name, fingerprint=bound.fingerprint[:12])
        approval = run.wait_for("approval", schema=Approval, about=bound, default=None, **ABOUT_APPROVALS)
        if approval is None or not approval.approved:
            return declined(approval)
    try:
        return told(run.attempt(bound))
    except errors.NotExecuted:
        return NOT_DONE


engine = Engine(DATABASE, workflows=[agent], environments=[inventory_service])


# -- async def ---------------------------------------------------------------------------------------------------------

ASYNC_TOOLS: Final = {tool.name: tool for tool in (Tool("reserve", reserve_async, expensive=many),)}


@workflow
async def agent_async(run: AsyncRun, goal: str) -> str:
    """As `agent`, awaited."""
    messages = [Message("user", goal)]
    for turn in range(TURNS_MAX):
        reply = await run.decide("model", ask, messages)
        run.publish("turn", {"turn": turn, "text": reply.text, "calls": [call.name for call in reply.calls]})
        messages.append(reply)
        if not reply.calls:
            return reply.text
        messages += [Message("tool", await act_async(run, call)) for call in reply.calls]
    raise NoEnd(f"no answer within {TURNS_MAX} turns")


async def act_async(run: AsyncRun, call: ToolCall) -> str:
    """As `act`, awaited."""
    found = parsed(ASYNC_TOOLS, call)
    if isinstance(found, str):
        return found
    tool, bound = found
    if tool.expensive(bound.arguments):
        run.log.info("waits for an approval", tool=call.name, fingerprint=bound.fingerprint[:12])
        approval = await run.wait_for("approval", schema=Approval, about=bound, default=None, **ABOUT_APPROVALS)
        if approval is None or not approval.approved:
            return declined(approval)
    try:
        return told(await run.attempt(bound))
    except errors.NotExecuted:
        return NOT_DONE


async_engine = AsyncEngine(DATABASE, workflows=[agent_async], environments=[inventory_service])


if __name__ == "__main__":
    with engine:
        try:
            sys.stdout.write(f"{engine.run(sys.argv[1], agent, sys.argv[2])}\n")
        except errors.RecoveryError as error:  # it waits for a person, say
            sys.stderr.write(f"{error}\n")
            sys.exit(error.exit_code)
