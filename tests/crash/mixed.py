"""The workflow of random plays: any effects in any order, of contracts with proof and without, in both colours.

Owns the kinds of effects by name. Effects without a key of their own are sent under a fresh one each time, so that the service deduplicates
nothing and two requests are two effects that it counts.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx

from recovery import Absent, Answer, AsyncRun, Call, Found, ReplyWas, Run, contracts, effect, workflow
from recovery.errors import NotExecuted
from recovery.examples.inventory.client import certified
from tests.crash.workflows import (
    RESENDING,
    SCARCE,
    SERVICE,
    SKU,
    TIMEOUT,
    Booking,
    OutOfStock,
    async_service,
    booked,
    choose,
    choose_async,
    environment,
    reserve,
    reserve_asking,
    reserve_asking_async,
    reserve_async,
    reserve_closing,
    reserve_closing_async,
    seconds,
    service,
    translated,
)

GENERATIONS = 50
"""Closed keys that are wanted again at most; each costs a kill between an attempt and its request."""
ASKED, ANSWER = "go-on", "yes"
PAUSE = timedelta(seconds=5)
"""Of a timed run, before each step; workers are in a hurry and do not wait for it."""
APART = "~"
"""Between an effect's key and what makes a request under it unlike any other."""


@dataclass(frozen=True)
class Mixed:
    """`outcomes`: per step the reservation's id, or the article that was out of stock."""

    made_by: int
    outcomes: list[str]


def fresh(call: Call) -> str:
    return f"{call.key}{APART}{secrets.token_hex(4)}"


def search(call: Call) -> dict[str, Any]:
    """The request that lists what the service has under keys like this call's."""
    return {"url": "/receipts", "params": {"since_us": "0", "after": f"{call.key}{APART}"}, "timeout": call.remaining_seconds()}


def found(call: Call, response: httpx.Response) -> Answer[Booking]:
    for receipt in response.raise_for_status().json()["receipts"]:
        if receipt["key"].startswith(f"{call.key}{APART}"):
            return Found(Booking(receipt["value"]["id"], receipt["value"]["units"]))
    return Absent()


PROBED, BLIND = contracts.Probeable(settle_window=timedelta(hours=2)), contracts.Opaque()
"""The window is longer than many hurried workers together move their clocks while a copy may be alive."""


@effect(PROBED, environment=environment, timeout=TIMEOUT)
def reserve_probed(call: Call, *, sku: str, units: int) -> Booking:
    with service() as client, translated():
        return booked(client.reserve(sku, units, idempotency_key=fresh(call), timeout=seconds(call)), call, lost=False)


@reserve_probed.probe
def find_probed(call: Call, *, sku: str, units: int) -> Answer[Booking]:
    with httpx.Client(base_url=os.environ[SERVICE], trust_env=False, verify=certified(os.environ[SERVICE])) as client:
        return found(call, client.get(**search(call)))


@effect(BLIND, environment=environment, timeout=TIMEOUT)
def reserve_blind(call: Call, *, sku: str, units: int) -> Booking:
    with service() as client, translated():
        return booked(client.reserve(sku, units, idempotency_key=fresh(call), timeout=seconds(call)), call, lost=False)


@effect(RESENDING, environment=environment, timeout=TIMEOUT)
def reserve_lying(call: Call, *, sku: str, units: int) -> Booking:
    """Its contract says that the service knows the key again, and it does not."""
    with service() as client, translated():
        made = client.reserve(sku, units, idempotency_key=fresh(call), timeout=seconds(call))
    raise ReplyWas(Found(Booking(made.id, made.units), receipt=made.id))


@effect(RESENDING, environment=environment, timeout=TIMEOUT, name="reserve_lying")
async def reserve_lying_async(call: Call, *, sku: str, units: int) -> Booking:
    booking = await send_fresh(call, sku, units)
    raise ReplyWas(Found(booking, receipt=booking.id))


async def send_fresh(call: Call, sku: str, units: int) -> Booking:
    async with async_service() as client:
        with translated():
            return booked(await client.reserve(sku, units, idempotency_key=fresh(call), timeout=seconds(call)), call, lost=False)


@effect(PROBED, environment=environment, timeout=TIMEOUT, name="reserve_probed")
async def reserve_probed_async(call: Call, *, sku: str, units: int) -> Booking:
    return await send_fresh(call, sku, units)


@reserve_probed_async.probe
async def find_probed_async(call: Call, *, sku: str, units: int) -> Answer[Booking]:
    async with httpx.AsyncClient(base_url=os.environ[SERVICE], trust_env=False, verify=certified(os.environ[SERVICE])) as client:
        return found(call, await client.get(**search(call)))


@effect(BLIND, environment=environment, timeout=TIMEOUT, name="reserve_blind")
async def reserve_blind_async(call: Call, *, sku: str, units: int) -> Booking:
    return await send_fresh(call, sku, units)


@dataclass(frozen=True)
class Kind:
    """effects: sync and async. proof: whether its contract always ends in an outcome. closes: its key can be closed, and it is then wanted
    again under another one."""

    effects: tuple[Any, Any]
    arguments: Mapping[str, Any]
    proof: bool = True
    closes: bool = False


KINDS: dict[str, Kind] = {
    "keyed": Kind((reserve, reserve_async), {"sku": SKU}),
    "keyed-lost": Kind((reserve, reserve_async), {"sku": SKU, "lost": True}),
    "refused": Kind((reserve, reserve_async), {"sku": SCARCE}),
    "asked": Kind((reserve_asking, reserve_asking_async), {"sku": SKU}, closes=True),
    "asked-lost": Kind((reserve_asking, reserve_asking_async), {"sku": SKU, "lost": True}, closes=True),
    "closed": Kind((reserve_closing, reserve_closing_async), {"sku": SKU}, closes=True),
    "closed-lost": Kind((reserve_closing, reserve_closing_async), {"sku": SKU, "lost": True}, closes=True),
    "probed": Kind((reserve_probed, reserve_probed_async), {"sku": SKU}, proof=False),
    "blind": Kind((reserve_blind, reserve_blind_async), {"sku": SKU}, proof=False),
}


LYING = {"lying": Kind((reserve_lying, reserve_lying_async), {"sku": SKU})}
"""Not drawn: an effect that happens twice under it is the service's fault, and is to be said."""


def key_of(run_id: str, number: int, generation: int = 0) -> str:
    """The key of a run's step, from 1 on; `generation`: from 1 on where a key can be closed."""
    return f"{run_id}:{number}:{generation}" if generation else f"{run_id}:{number}"


FORMS = ("gather", "map", "timed", "family", "answered")
"""How a run comes to its steps, said in front of them: each in a branch of a gather or of a map, behind a timer and a patch, in a child, or, behind the first, once somebody has answered. Else one after
the other. Only the last may be followed by doubt: of branches, several could be in it."""


def formed(said: list[str]) -> tuple[str, list[tuple[int, str]]]:
    """The form, and the steps with their numbers."""
    form, steps = (said[0], said[1:]) if said[0] in FORMS else ("", said)
    return form, list(enumerate(steps, 1))


def one(run: Run, owner: str, number: int, name: str, units: int) -> str:
    """One effect, wanted again under another key where its key was closed. What it came to: the reservation, or what there was none of."""
    kind = (KINDS | LYING)[name]
    for generation in range(1, GENERATIONS + 1):
        bound = kind.effects[0](units=units, **kind.arguments)
        try:
            return run.perform(bound, key=key_of(owner, number, generation if kind.closes else 0)).id
        except OutOfStock as error:
            return error.sku
        except NotExecuted:
            continue  # proven, and its key is closed: wanting it again is a new step
    raise AssertionError(f"step {number} was closed {GENERATIONS} times")


async def one_async(run: AsyncRun, owner: str, number: int, name: str, units: int) -> str:
    kind = (KINDS | LYING)[name]
    for generation in range(1, GENERATIONS + 1):
        bound = kind.effects[1](units=units, **kind.arguments)
        try:
            return (await run.perform(bound, key=key_of(owner, number, generation if kind.closes else 0))).id
        except OutOfStock as error:
            return error.sku
        except NotExecuted:
            continue
    raise AssertionError(f"step {number} was closed {GENERATIONS} times")


@workflow
def errand(run: Run, owner: str, number: int, name: str, units: int) -> str:
    """A child that does one step of its parent's."""
    return one(run, owner, number, name, units)


@workflow(name="errand")
async def errand_async(run: AsyncRun, owner: str, number: int, name: str, units: int) -> str:
    return await one_async(run, owner, number, name, units)


@workflow
def mixed(run: Run, steps: list[str]) -> Mixed:
    plan = run.decide("plan", choose, 2)
    owner, units = run.run_id, plan.units
    form, numbered = formed(steps)
    match form:
        case "gather":
            bodies = [lambda branch, at=at: one(branch, owner, *at, units) for at in numbered]
            return Mixed(plan.made_by, list(run.gather(*bodies)))
        case "map":
            return Mixed(plan.made_by, list(run.map(lambda branch, at: one(branch, owner, *at, units), numbered, limit=2)))
        case "family":
            return Mixed(plan.made_by, [run.call_child(errand(owner, *at, units)) for at in numbered])
    outcomes: list[str] = []
    for number, name in numbered:
        if form == "timed":
            run.sleep(PAUSE if run.patched("paused") else 2 * PAUSE)
        if form == "answered" and number == 2:
            assert run.wait_for(ASKED, schema=str) == ANSWER
        outcomes.append(one(run, owner, number, name, units))
    return Mixed(plan.made_by, outcomes)


@workflow(name="mixed")
async def mixed_async(run: AsyncRun, steps: list[str]) -> Mixed:
    plan = await run.decide("plan", choose_async, 2)
    owner, units = run.run_id, plan.units
    form, numbered = formed(steps)
    match form:
        case "gather":
            bodies = [lambda branch, at=at: one_async(branch, owner, *at, units) for at in numbered]
            return Mixed(plan.made_by, list(await run.gather(*bodies)))
        case "map":
            return Mixed(
                plan.made_by, list(await run.map(lambda branch, at: one_async(branch, owner, *at, units), numbered, limit=2))
            )
        case "family":
            return Mixed(plan.made_by, [await run.call_child(errand_async(owner, *at, units)) for at in numbered])
    outcomes: list[str] = []
    for number, name in numbered:
        if form == "timed":
            await run.sleep(PAUSE if run.patched("paused") else 2 * PAUSE)
        if form == "answered" and number == 2:
            assert await run.wait_for(ASKED, schema=str) == ANSWER
        outcomes.append(await one_async(run, owner, number, name, units))
    return Mixed(plan.made_by, outcomes)


MIXED: dict[str, dict[str, Any]] = {
    "sync": {"mixed": mixed, "errand": errand},
    "async": {"mixed": mixed_async, "errand": errand_async},
}
