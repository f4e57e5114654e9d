"""An app whose every value has something secret in it, declared in each of the ways there are. The command-line tests name its engine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import pydantic

from recovery import (
    Answer,
    Budget,
    Call,
    Engine,
    Environment,
    Found,
    Redacted,
    Refused,
    Rejection,
    Run,
    Secret,
    contracts,
    effect,
    workflow,
)

PLANTED = "s3cr3t"
"""In every secret, so that one search finds any of them."""


def planted(name: str) -> str:
    return f"{PLANTED}-{name}"


@dataclass(frozen=True)
class Order:
    customer: str
    card: Secret[str]


class Ticket(pydantic.BaseModel):
    id: str
    token: pydantic.SecretStr
    recovery_codes: Secret[list[str]]


class Declined(Rejection):
    why: str
    card: Secret[str]


class World:
    """What the environment does next, by run."""

    def __init__(self) -> None:
        self.way: dict[str, str] = {}
        self.found: dict[str, Any] = {}


WORLD = World()
BANK = Environment("bank", scope="test")
KEYED = contracts.Keyed(window=timedelta(days=1), lookup=contracts.Lookup(original=True))
SAYS_NOTHING = contracts.Opaque()


def ticket(name: str) -> Ticket:
    return Ticket(id=f"T-{name}", token=pydantic.SecretStr(planted("token")), recovery_codes=[planted("code-1"), planted("code-2")])


@effect(KEYED, environment=BANK, rejects=(Declined,))
def charge(call: Call, *, order: Order, pin: Annotated[int | str, Redacted], password: pydantic.SecretStr) -> Ticket:
    assert order.card == planted("card")
    assert password.get_secret_value() == planted("password")
    match WORLD.way.get(order.customer, "ok"):
        case "declined":
            raise Declined(why="no money", card=order.card)
        case "lost":
            raise ConnectionError(f"lost while charging {order.card}")
        case _:
            return ticket(order.customer)


@charge.probe
def find(call: Call, *, order: Order, pin: Annotated[int | str, Redacted], password: pydantic.SecretStr) -> Answer[Ticket]:
    return WORLD.found[order.customer]


@charge.compensation(KEYED)
def refund(
    call: Call, outcome: Ticket, *, order: Order, pin: Annotated[int | str, Redacted], password: pydantic.SecretStr
) -> None: ...


@effect(SAYS_NOTHING, environment=BANK, name="tell", rejects=(Declined,))
def tell(call: Call, *, card: Secret[str]) -> Secret[str]:
    raise ConnectionError(f"lost while telling {card}")


def ask_for_a_pin(order: Order) -> Secret[str]:
    return planted("pin")


def fail_to_decide(order: Order) -> str:
    raise LookupError(f"nobody knows {order.card}")


@workflow
def buy(run: Run, order: Order) -> Ticket:
    pin = run.decide("pin", ask_for_a_pin, order)
    bought = run.perform(charge(order=order, pin=pin, password=pydantic.SecretStr(planted("password"))))
    match order.customer:
        case "failed":
            raise RuntimeError(f"the customer with {order.card} and {bought.token.get_secret_value()} has gone")
        case "undecided":
            run.decide("more", fail_to_decide, order)
        case "opaque":
            run.perform(tell(card=order.card))
        case "asks":
            run.publish("ticket", {"of": order.customer})
            said = run.wait_for("word", schema=Secret[str], about=tell(card=order.card))
            run.receive("more", schema=Secret[str])
            assert said == planted("told")
    return bought


engine = Engine("memory://", workflows=[buy], environments=[BANK], budget=Budget(max_wait=timedelta(0)))


def again(name: str) -> Any:
    """What a probe says who finds the effect that happened."""
    return Found(ticket(name))


def refused(name: str) -> Any:
    return Refused(Declined(why="other", card=planted("card")))
