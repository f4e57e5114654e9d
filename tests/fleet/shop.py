"""The app that the fleet runs: `recover worker --app tests.fleet.shop:engine`.

Owns the workflows and what must come of them. Two orders of keyed effects, a decision between them that nobody may make twice, a child for some, a timer for
others, and a declared "no". Invariant: what a run comes to can be told from its number and from what the service wrote down.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from recovery import Call, Engine, Environment, Lease, Rejection, Run, contracts, effect, workflow

DATABASE, SERVICE, SPOILT = "FLEET_DATABASE", "FLEET_SERVICE", "FLEET_SPOILT"
TERM: Final = timedelta(seconds=3)
"""Of a lease: short, so that what a stopped worker has is taken over while it is stopped."""
STEPS: Final = ("reserve", "charge", "ship")

remembers = contracts.Keyed(window=timedelta(hours=24))
outside = Environment("outside", scope="here")
_mine = threading.local()


class Declined(Rejection):
    about: str


@dataclass(frozen=True)
class Done:
    id: str
    about: str
    pick: str


def declines(number: int) -> bool:
    return number % 10 == 3


def sleeps(number: int) -> bool:
    return number % 7 == 5


def has_child(number: int) -> bool:
    return number % 20 == 11


def post(call: Call, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """One request on this thread's connection. Whatever cuts it off is an exception: the engine is to find out what became of it."""
    connection: http.client.HTTPConnection | None = getattr(_mine, "connection", None)
    if connection is None:
        connection = _mine.connection = http.client.HTTPConnection("127.0.0.1", int(os.environ[SERVICE]), timeout=20)
    key = secrets.token_hex(8) if os.environ.get(SPOILT) == "minted" else call.key
    try:
        connection.request("POST", "/", json.dumps(asked), {"Idempotency-Key": key})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    except BaseException:
        _mine.connection = None  # what is on its way belongs to no other request
        connection.close()
        raise


def act(call: Call, about: str, pick: str, *, decline: bool = False) -> Done:
    status, reply = post(call, {"about": about, "pick": pick, "decline": decline})
    if status == 402:
        raise Declined(about=reply["about"])
    if status != 201:
        raise RuntimeError(f"the service said {status}")
    return Done(**reply)


@effect(remembers, environment=outside, timeout=timedelta(seconds=20))
def reserve(call: Call, *, about: str, pick: str) -> Done:
    return act(call, about, pick)


@effect(remembers, environment=outside, rejects=(Declined,), timeout=timedelta(seconds=20), riding=False)
def charge(call: Call, *, about: str, pick: str, decline: bool) -> Done:
    return act(call, about, pick, decline=decline)


@effect(remembers, environment=outside, timeout=timedelta(seconds=20))
def ship(call: Call, *, about: str, pick: str) -> Done:
    return act(call, about, pick)


@workflow
def pack(run: Run, name: str) -> str:
    return run.perform(reserve(about=f"{name}/pack", pick="")).id


@workflow
def order(run: Run, number: int) -> list[str]:
    """What came of each effect, by the service's own numbers; the decision goes to the service with each request, so that a second one would be refused."""
    pick = run.decide("pick", secrets.token_hex, 4)
    name = f"order-{number}"
    came = [run.perform(reserve(about=f"{name}/reserve", pick=pick)).id]
    if sleeps(number):
        run.sleep(timedelta(seconds=1.2))
    try:
        came.append(run.perform(charge(about=f"{name}/charge", pick=pick, decline=declines(number))).id)
    except Declined:
        came.append("declined")
    if has_child(number):
        came.append(run.call_child(pack(name)))
    came.append(run.perform(ship(about=f"{name}/ship", pick=pick)).id)
    return came


def made() -> Engine:
    lease = Lease(term=TERM, renew_every=TERM / 4)
    return Engine(os.environ[DATABASE], workflows=[order, pack], lease=lease)


engine = made() if DATABASE in os.environ else None
