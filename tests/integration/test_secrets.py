"""What was declared secret is stored exactly and shown nowhere: planted in every value, looked for in every output of every command."""

from __future__ import annotations

import io
import json
import logging
import traceback
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pydantic
import pytest
from typer.main import get_command

from recovery import (
    Bound,
    Call,
    Engine,
    Mismatch,
    Redacted,
    Rejection,
    Run,
    Secret,
    Status,
    codec,
    contracts,
    effect,
    errors,
    logs,
    workflow,
)
from recovery.cli import app
from recovery.core.entries import Intent, encode
from recovery.storage import open_journal
from recovery.testing import explore

from . import secret_shop as shop
from .cli_typed import Ended, typed
from .secret_shop import PLANTED, planted

APP = "tests.integration.secret_shop:engine"
RUNS = ("done", "declined", "failed", "undecided", "opaque", "lost", "mismatch", "twice", "asks")
WHO = ("--by", "ann", "--reason", "she looked")

UNTYPED = {"send"}
"""Says a message of a topic, which is typed only when the run receives it: what is typed in is told again as it was."""

VALUELESS = (
    {f"schedules {name}" for name in ("list", "pause", "resume", "trigger")}
    | {"migrate", "replay", "demo", "explore", "parking", "contracts list", "contracts show"}
    | {f"checkpoint {name}" for name in ("plan", "verify-resume", "list", "inspect", "verify", "diff", "gc", "pin", "unpin")}
)
"""Commands that never see a value of a run. What `explore` writes has a test of its own."""


EXACT = {"export"}
"""A copy of the journal, made to be replayed: as exact as a backup."""


def commands() -> set[str]:
    def below(command: Any, path: str) -> Iterator[str]:
        for name, inner in command.commands.items():
            yield from below(inner, f"{path}{name} ") if getattr(inner, "commands", None) else [f"{path}{name}"]

    return set(below(get_command(app), ""))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A journal with a run for each way in which values get into it."""
    url = f"sqlite:///{tmp_path}/recovery.db"
    shop.WORLD.way = {"declined": "declined", "lost": "lost", "mismatch": "lost"}
    shop.WORLD.found = {
        "lost": shop.again("lost"),
        "mismatch": Mismatch(),
        "done": shop.again("other"),
        "twice": shop.again("twice"),
    }
    told: list[str] = []
    with shop.engine.on(url) as engine:
        for name in RUNS:
            try:
                engine.run(name, shop.buy, shop.Order(name, planted("card")))
            except errors.RecoveryError as error:
                told.append(f"{error} {error!r} {error.fields} {''.join(traceback.format_exception(error))}")
        engine.observe("twice", "charge#1", shop.again("another"), effect=shop.charge)
        engine.recover("twice")
    assert len(told) > 4
    assert not [text for text in told if PLANTED in text]
    return url


def lines(*, with_app: bool, approved: str = "") -> Iterator[tuple[str, ...]]:
    """Every command, about runs whose values it would show; those that change something last."""
    yield from [
        ("runs",),
        ("queues",),
        ("doubt",),
        ("verify", "--against-env"),
        ("orphans",),
        ("waits",),
        ("listen", "asks", "--wait", "0"),
    ]
    for run in RUNS:
        yield from [("show", run), ("--run-id", run, "--plan")]
    for run, step in (("opaque", "tell#1"), ("lost", "charge#1"), ("mismatch", "charge#1"), ("twice", "charge#1")):
        yield from [("explain", run, step), ("probe", run, step)]
    if not with_app:
        return  # without an effect's types nobody knows that what a person types in is secret
    yield from (("--run-id", run) for run in RUNS)
    yield from [
        ("redrive", "opaque", "tell#1", *WHO),
        ("close", "opaque", "tell#1", *WHO),
        ("compensate", "twice", "charge#1", "--plan", *WHO),
        ("acknowledge", "twice", "charge#1", *WHO),
    ]
    secret = json.dumps(planted("told"))
    yield ("resolve", "opaque", "tell#1", "--applied", "--value", secret, *WHO, "--evidence", "a call")
    fields = json.dumps({"why": "no", "card": planted("card")})
    yield ("resolve", "mismatch", "charge#1", "--rejected", "Declined", "--value", fields, *WHO, "--evidence", "a call")
    yield from [("fork", "done", "done-again", *WHO), ("show", "done-again")]
    yield ("restart", "opaque", "tell#1", "--forbid", "tell#1", "--plan", *WHO)
    yield from [(order, "undecided", *WHO) for order in ("hold", "release", "fence")]
    yield from [("signal", "asks", "word", "--value", secret, "--by", "ann", "--about", approved), ("waits",)] * 2
    yield ("signal", "asks", "word", "--value", json.dumps(planted("other")), "--by", "bob", "--about", approved)
    yield from [("--run-id", "asks"), ("signal", "asks", "word", "--value", secret, "--by", "bob"), ("waits", "asks")]
    yield from [("show", "asks"), ("listen", "asks", "--wait", "0"), ("query", "asks"), ("versions",)]
    yield from [("change-version", "undecided", "--to", "1", *WHO), ("fork", "twice", "forked", *WHO), ("show", "forked")]
    yield from [("restart", "mismatch", "charge#1", "--forbid", "charge#1", *WHO)]
    yield from [(order, "undecided", *WHO) for order in ("pause", "resume", "cancel")]
    order = json.dumps({"order": {"customer": "later", "card": planted("card")}})
    yield from [("enqueue", "buy", "--input", order, "--run-id", run) for run in ("later", "done")]
    yield from [("worker", "--until-idle", "--concurrency", "1"), ("show", "later")]
    yield from [
        ("check-versions", "--settled"),
        ("show", "opaque"),
        ("show", "mismatch"),
        ("forget", "done", *WHO),
        ("restored", *WHO),
        ("doubt",),
    ]


@pytest.mark.parametrize("with_app", [True, False], ids=["with its app", "without it"])
def test_no_output_of_any_command_shows_a_secret(url: str, *, with_app: bool) -> None:
    used = {line[0] for line in lines(with_app=True) if not line[0].startswith("-")}
    assert commands() == used | VALUELESS | EXACT | UNTYPED, "a new command shows values, or does not: say which"
    told: dict[str, Ended] = {}
    bound = shop.tell(card=planted("card"))
    bound.taken()
    for line in lines(with_app=with_app, approved=bound.fingerprint):
        for form in ((), ("--json",)):
            command = [*line, "--db", url, *(("--app", APP) if with_app else ()), *form]
            told[" ".join([*line, *form])] = typed(*command)
    shown = {command: came.out + came.err for command, came in told.items() if PLANTED in came.out + came.err}
    assert shown == {}
    assert not [command for command, came in told.items() if came.code == 70]
    assert sum("$withheld" in came.out for came in told.values()) > 20, "the values themselves were there to be withheld"


def test_what_is_stored_is_exact(url: str) -> None:
    with shop.engine.on(url) as engine:
        bought = engine.run("done", shop.buy, shop.Order("done", planted("card")))
        assert (bought.token.get_secret_value(), bought.recovery_codes) == (
            planted("token"),
            [planted("code-1"), planted("code-2")],
        )
        [intent] = [entry for entry in engine.history("done") if isinstance(entry, Intent)]
        bound = shop.charge.bind(intent.arguments)
        assert bound.fingerprint == intent.fingerprint
        assert bound.arguments["order"].card == planted("card")
        assert PLANTED in codec.dumps(encode(intent))
        with pytest.raises(errors.RunFailed) as failed:
            engine.run("declined", shop.buy, shop.Order("declined", planted("card")))
        assert failed.value.rejection["card"] == {"$secret": planted("card")}


def test_messages_of_exceptions_are_stored_without_the_secrets_of_their_run(url: str) -> None:
    with shop.engine.on(url) as engine:
        with pytest.raises(errors.RunFailed, match="the customer with <secret> and <secret> has gone"):
            engine.run("failed", shop.buy, shop.Order("failed", planted("card")))
        with pytest.raises(errors.DecisionFailed, match="nobody knows <secret>"):
            engine.run("undecided", shop.buy, shop.Order("undecided", planted("card")))


def test_no_repr_and_no_log_shows_a_secret(url: str) -> None:
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger("recovery").addHandler(handler)
    try:
        with shop.engine.on(url) as engine:
            things: list[Any] = [
                shop.charge(order=shop.Order("x", planted("card")), pin=1, password=pydantic.SecretStr(planted("p")))
            ]
            for run in RUNS:
                things += [*engine.history(run), engine.get(run), *engine.get(run).contradictions]
                try:
                    things.append(engine.recover(run))
                except errors.DecisionFailed as error:
                    things.append(error)
            things += [engine.explain("opaque", "tell#1"), shop.Declined(why="no", card=planted("card"))]
        logs.Log("test").error("told", value=things[0].stored, nested=[{"answer": things[1].input}])
    finally:
        logging.getLogger("recovery").removeHandler(handler)
    shown = [thing for thing in things if PLANTED in f"{_without_the_callers(thing)!r} {_without_the_callers(thing)}"]
    assert shown == []
    assert "told" in heard.getvalue()
    assert PLANTED not in heard.getvalue()


def _without_the_callers(thing: Any) -> Any:
    """A recovered value is the caller's own, of the caller's own type, whose `repr` is not ours."""
    from dataclasses import replace

    from recovery import Recovered

    return replace(thing, value=None) if isinstance(thing, Recovered) else thing


def test_what_the_explorer_and_the_player_write_shows_no_secret() -> None:
    @effect(contracts.Opaque(), name="pay")
    def pay(call: Call, *, card: Secret[str]) -> Secret[str]:
        raise AssertionError

    @workflow
    def twice(run: Run, card: Secret[str]) -> Secret[str]:
        first = run.perform(pay(card=card))
        assert first == card, f"{PLANTED}: a wrong claim, so that there is a history to write"
        return first

    explored = explore(twice, planted("card"), effects={pay: lambda card: planted("receipt")}, faults=1, recoverers=1)
    text = repr(explored) + "".join(str(found.scenario) for found in explored.violations)
    assert planted("card") not in text
    assert planted("receipt") not in text


# -- declarations ---------------------------------------------------------------------------------------------------------


def test_declaring_a_value_secret_later_changes_no_fingerprint_and_reads_what_was_stored() -> None:
    def made(kind: Any) -> Any:
        def send(call: Call, *, word: str) -> str:
            return word

        send.__annotations__.update(word=kind)
        send.__annotations__["return"] = kind
        return effect(contracts.Keyed(window=timedelta(days=1)), name="send")(send)

    plain, secret = made(str), made(Secret[str])
    before, after = plain(word="w"), secret(word="w")
    assert (before.stored, after.stored) == ({"word": "w"}, {"word": {"$secret": "w"}})
    assert before.fingerprint == after.fingerprint
    assert secret.bind(before.stored).arguments == plain.bind(after.stored).arguments == {"word": "w"}
    assert secret.decode_value("w") == plain.decode_value({"$secret": "w"}) == "w"


def test_a_secret_field_on_one_side_is_no_difference() -> None:
    """A stable field is compared by its value: the argument is secret, the receipt's is not."""

    class Receipt(pydantic.BaseModel):
        id: str
        word: str

    @effect(contracts.Keyed(window=timedelta(days=1), stable_fields=("id", "word")), name="send")
    def send(call: Call, *, word: Secret[str]) -> Receipt:
        return Receipt(id="1", word=word)

    @workflow
    def go(run: Run) -> str:
        return run.perform(send(word="w")).id

    engine = Engine("memory://", workflows=[go])
    assert engine.run("r", go) == "1"
    assert engine.get("r").status is Status.COMPLETED


def test_an_imitation_is_a_value_and_is_shown() -> None:
    @workflow
    def echo(run: Run, value: Any) -> Any:
        return value

    journal = open_journal("memory://")
    engine = Engine(journal)
    assert engine.run("r", echo, {"$secret": "mine"}) == {"$secret": "mine"}
    assert "mine" in repr(engine.history("r"))


class Shy(pydantic.BaseModel):
    token: pydantic.SecretStr

    @pydantic.model_serializer
    def as_text(self) -> str:
        return f"token {self.token}"


def test_a_secret_that_cannot_be_found_in_its_json_is_refused() -> None:
    with pytest.raises(errors.ValueNotStorable) as refused:
        codec.Codec(Shy).encode(Shy(token=pydantic.SecretStr(planted("t"))))
    assert PLANTED not in str(refused.value)


def test_both_ways_of_declaring_are_one() -> None:
    assert Secret[str].__metadata__ == (Redacted,)  # type: ignore[attr-defined]

    class Refusal(Rejection):
        a: Secret[str]
        b: pydantic.SecretStr
        c: str

    assert str(Refusal(a="x", b=pydantic.SecretStr("y"), c="z")) == "Refusal: a=<secret>, b=<secret>, c='z'"
    assert repr(Refusal(a="x", b=pydantic.SecretStr("y"), c="z")) == "Refusal(a=<secret>, b=<secret>, c='z')"


def test_a_bound_call_shows_none(url: str) -> None:
    bound: Bound[Any] = shop.tell(card=planted("card"))
    assert PLANTED not in repr(bound)
    bound.taken()
