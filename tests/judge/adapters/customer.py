"""The customer's code, the same for every program: one POST for a reservation, and a look-up where the service has one.

What an adapter gets is in the environment (see `tests/judge/programs.py`); what it says is one line of JSON on standard output. Nothing here
retries, records or decides anything: that is what the programs are for. Standard library only, so that it runs in each of their environments.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from typing import Any, NoReturn
from urllib.parse import quote

OFFER = os.environ["JUDGE_OFFER"]  # keys, look-up or neither
HOST = os.environ["JUDGE_HOST"]
STATE = os.environ["JUDGE_STATE"]  # a directory of the program's own
PROCESS = os.environ["JUDGE_PROCESS"]  # differs between two that live at once
KEY = "reservation-1"
SKU = "FILTER-A"
UNITS = int(os.environ["JUDGE_UNITS"])
TIMEOUT_SECONDS = float(os.environ["JUDGE_TIMEOUT_SECONDS"])  # how long a reply is waited for
WINDOW_SECONDS = float(os.environ["JUDGE_WINDOW_SECONDS"])  # how long the service promises to remember a key
SETTLE_SECONDS = float(
    os.environ["JUDGE_SETTLE_SECONDS"]
)  # how long after its sender's deadline a request may still act, by the service's word
LEASE_SECONDS = float(os.environ["JUDGE_LEASE_SECONDS"])
WORKERS_STOPPED = (
    os.environ["JUDGE_WORKERS_STOPPED"] == "1"
)  # whether the operator who starts a recovery knows that nobody else works


class Conflict(Exception):
    """422: this key was used for another request."""


class InFlight(Exception):
    """409: the first request under this key is still at work."""


def reserve(key: str | None, *, units: int = UNITS, timeout: float = TIMEOUT_SECONDS) -> dict[str, Any]:
    """One request. Raises Conflict, InFlight, TimeoutError, ConnectionError and other OSErrors: after these last it may have happened."""
    asked = {"sku": SKU, "units": units} | ({"reference": key} if OFFER == "look-up" else {})
    headers = {"Idempotency-Key": key} if OFFER == "keys" and key else {}
    _request("GET", "/gate/before", None)
    status, body = _request("POST", "/reservations", asked, headers, timeout)
    if status == 422:
        raise Conflict(body["problem"])
    if status == 409:
        raise InFlight(body["problem"])
    if status != 201:
        raise RuntimeError(f"status {status}")
    _request("GET", "/gate/after", None)
    return body


def look_up(key: str) -> dict[str, Any] | None:
    """What was made under a reference, or None: read from where it is written, as of now."""
    _, made = _request("GET", f"/reservations?reference={quote(key)}", None)
    return {name: made[0][name] for name in ("id", "sku", "units")} if made else None


def _request(
    method: str, path: str, body: Any, headers: dict[str, str] | None = None, timeout: float | None = None
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(HOST, timeout=timeout)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def outcome(value: dict[str, Any]) -> None:
    _say("outcome", id=value["id"], units=value["units"])


def in_doubt(why: object) -> None:
    """It may have happened, and somebody must find out."""
    _say("in doubt", why=_text(why))


def later(why: object) -> None:
    """Neither an outcome nor doubt: somebody else is at work, or it is to be looked at again."""
    _say("later", why=_text(why))


def refused(why: object) -> None:
    """This call was refused before it did anything."""
    _say("refused", why=_text(why))


def error(why: object) -> None:
    """Something else, which says nothing about the effect."""
    _say("error", why=_text(why))


def command() -> tuple[str, str]:
    """run or recover, and the workflow's id."""
    return sys.argv[1], sys.argv[2]


def leave() -> NoReturn:
    """End at once: no background thread of a library holds the process up."""
    sys.stdout.flush()
    os._exit(0)


def _say(claim: str, **more: object) -> None:
    sys.stdout.write(json.dumps({"claim": claim, **more}) + "\n")
    sys.stdout.flush()


def _text(why: object) -> str:
    return f"{type(why).__name__}: {why}"[:300] if isinstance(why, BaseException) else str(why)[:300]
