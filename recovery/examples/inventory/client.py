"""The inventory's client, sync and async: one request per call, and an honest word about what became of it.

Owns the wire format and the sorting of failures. Knows nothing of runs. Invariant: a call sends at most one request (no retry, no
redirect, no proxy from the environment), and raises NotSent only if not one byte of it can have reached the service.

    InventoryError
      OutOfStock, NoSuchReservation            remembered: the service will say so again
      NotSent                                  proof that nothing happened; safe to send again
      Unknown                                  it may have happened: ask with look_up, or send the same again
      InFlight, KeyMismatch, Closed, Expired   about the key, see recovery.receipts
      TurnedAway                               this request did nothing; says nothing about earlier ones
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import quote

import httpx

T = TypeVar("T")

TIMEOUT = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Reservation:
    id: str
    sku: str
    units: int


@dataclass(frozen=True, slots=True)
class Released:
    id: str
    released: bool


# -- what is known about a key -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Applied:
    """It happened, and this was the original outcome. ``value`` is None if it is no longer kept."""

    value: Reservation | Released | None
    fingerprint: str
    at_us: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """It was refused, and this was the original error. ``error`` is None if it is no longer kept."""

    error: OutOfStock | NoSuchReservation | None
    fingerprint: str
    at_us: int


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Nothing happened under this key, and nothing will."""

    at_us: int


@dataclass(frozen=True, slots=True)
class Absent:
    """Nothing had happened, and nothing was under way, at this time of the service's clock (microseconds since the Unix epoch)."""

    as_of_us: int


@dataclass(frozen=True, slots=True)
class Listed:
    """One decided key, as the service stores it. ``kind``: applied, rejected or closed."""

    key: str
    kind: str
    fingerprint: str
    outcome: Any
    at_us: int


Known = Applied | Rejected | Tombstone | Absent


# -- errors ------------------------------------------------------------------------------------------------------------


class InventoryError(Exception):
    code: ClassVar[str] = ""


@dataclass(eq=True)
class OutOfStock(InventoryError):
    code: ClassVar[str] = "out_of_stock"
    sku: str
    units: int


@dataclass(eq=True)
class NoSuchReservation(InventoryError):
    code: ClassVar[str] = "no_such_reservation"
    id: str


class NotSent(InventoryError):
    """The connection was never made, or none was free."""


class Unknown(InventoryError):
    """The request may have been received, and no answer that can be trusted came back."""


@dataclass(eq=True)
class InFlight(InventoryError):
    code: ClassVar[str] = "in_flight"
    retry_after: timedelta


class KeyMismatch(InventoryError):
    code: ClassVar[str] = "key_mismatch"


class Closed(InventoryError):
    code: ClassVar[str] = "closed"


class Expired(InventoryError):
    code: ClassVar[str] = "expired"


class TurnedAway(InventoryError):
    """400, or 412: too late or superseded."""


# -- the clients -------------------------------------------------------------------------------------------------------


class InventoryClient:
    """Calls one service. Safe for several threads. ``timeout`` bounds connecting, and each wait for bytes."""

    def __init__(self, url: str, *, timeout: timedelta = TIMEOUT) -> None:
        transport = httpx.HTTPTransport(retries=0, verify=certified(url))
        self._http = httpx.Client(base_url=url, timeout=_timeout(timeout), transport=transport, trust_env=False)

    def reserve(self, sku: str, units: int, *, idempotency_key: str, **fence: Any) -> Reservation:
        """Take units out of stock, once per key. ``fence``: timeout, not_after_us, epoch."""
        return _reservation(self._send(_reserve(sku, units, idempotency_key, **fence)))

    def release(self, reservation_id: str, *, idempotency_key: str, **fence: Any) -> Released:
        """Undo a reservation, under a key of its own."""
        return _released(self._send(_release(reservation_id, idempotency_key, **fence)))

    def look_up(self, key: str, **fence: Any) -> Known:
        """What became of a key. Waits a bounded time for a request that is under way, then raises InFlight."""
        return _known(self._send(_look_up(key, **fence)))

    def close(self, key: str, **fence: Any) -> Known:
        """The outcome of a key if it has one, else a Tombstone: from then on the key is refused."""
        return _known(self._send(_close(key, **fence)))

    def receipts(self, *, since_us: int = 0) -> list[Listed]:
        """Every decided key from a time on, in pages."""
        found: list[Listed] = []
        while page := _listed(self._send(_receipts(since_us, found[-1].key if found else ""))):
            found += page
        return found

    def disconnect(self) -> None:
        """Give up connections. Not needed inside `with`."""
        self._http.close()

    def _send(self, request: dict[str, Any]) -> httpx.Response:
        try:
            return self._http.request(**request)
        except httpx.HTTPError as error:
            raise _lost(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.disconnect()


class AsyncInventoryClient:
    """The same, awaited. For one event loop. A cancelled call is as unknown as a lost reply."""

    def __init__(self, url: str, *, timeout: timedelta = TIMEOUT) -> None:
        transport = httpx.AsyncHTTPTransport(retries=0, verify=certified(url))
        self._http = httpx.AsyncClient(base_url=url, timeout=_timeout(timeout), transport=transport, trust_env=False)

    async def reserve(self, sku: str, units: int, *, idempotency_key: str, **fence: Any) -> Reservation:
        return _reservation(await self._send(_reserve(sku, units, idempotency_key, **fence)))

    async def release(self, reservation_id: str, *, idempotency_key: str, **fence: Any) -> Released:
        return _released(await self._send(_release(reservation_id, idempotency_key, **fence)))

    async def look_up(self, key: str, **fence: Any) -> Known:
        return _known(await self._send(_look_up(key, **fence)))

    async def close(self, key: str, **fence: Any) -> Known:
        return _known(await self._send(_close(key, **fence)))

    async def disconnect(self) -> None:
        await self._http.aclose()

    async def _send(self, request: dict[str, Any]) -> httpx.Response:
        try:
            return await self._http.request(**request)
        except httpx.HTTPError as error:
            raise _lost(error) from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.disconnect()


# -- requests ----------------------------------------------------------------------------------------------------------


def _reserve(sku: str, units: int, key: str, **fence: Any) -> dict[str, Any]:
    return _request("POST", "/reservations", key, **fence) | {"json": {"sku": sku, "units": units}}


def _release(reservation_id: str, key: str, **fence: Any) -> dict[str, Any]:
    return _request("POST", f"/reservations/{_quoted(reservation_id)}/release", key, **fence)


def _look_up(key: str, **fence: Any) -> dict[str, Any]:
    return _request("GET", f"/keys/{_quoted(key)}", **fence)


def _receipts(since_us: int, after: str) -> dict[str, Any]:
    return {"method": "GET", "url": "/receipts", "params": {"since_us": str(since_us), "after": after}}


def _close(key: str, **fence: Any) -> dict[str, Any]:
    return _request("POST", f"/keys/{_quoted(key)}/close", **fence)


def _request(
    method: str,
    path: str,
    key: str = "",
    *,
    timeout: timedelta | None = None,
    not_after_us: int | None = None,
    epoch: object = None,
) -> dict[str, Any]:
    headers = {"Idempotency-Key": key} if key else {}
    if not_after_us is not None:
        headers["Not-After-Us"] = str(not_after_us)
    if epoch is not None:
        headers["Epoch"] = str(epoch)
    request: dict[str, Any] = {"method": method, "url": path, "headers": headers}
    return request | ({"timeout": _timeout(timeout)} if timeout is not None else {})


def _quoted(text: str) -> str:
    return quote(text, safe="").replace(".", "%2E")  # a key may be "..", and URLs are normalised on the way


def certified(url: str) -> bool:
    """Whether certificates matter: loading them costs 20 ms, more than a whole exchange over plain HTTP."""
    return not url.startswith("http:")


def _timeout(timeout: timedelta) -> httpx.Timeout:
    return httpx.Timeout(timeout.total_seconds(), connect=min(2.0, timeout.total_seconds()))


# -- replies -----------------------------------------------------------------------------------------------------------


def _lost(error: httpx.HTTPError) -> InventoryError:
    """Whether a failed exchange can have reached the service. What is not proven is unknown."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | httpx.UnsupportedProtocol):
        return NotSent(f"{type(error).__name__}: {error}")
    return Unknown(f"{type(error).__name__}: {error}")


def _read(response: httpx.Response, expected: tuple[int, ...], decode: Callable[[dict[str, Any]], T]) -> T:
    """What an expected reply says. Raises what another one says; a reply that is not this service's says nothing."""
    try:
        body = response.json()
        if response.status_code in expected:
            return decode(body)
        error = _error(body, response.headers.get("Retry-After", "1"))
    except (ValueError, KeyError, TypeError, AttributeError) as strange:
        raise Unknown(f"status {response.status_code} with a body that is not the inventory's") from strange
    raise error


def _error(body: dict[str, Any], retry_after: str) -> InventoryError:
    match code := body["code"]:
        case OutOfStock.code | NoSuchReservation.code:
            return _rejection(code, body)
        case InFlight.code:
            return InFlight(timedelta(seconds=int(retry_after)))
        case KeyMismatch.code | Closed.code | Expired.code:
            return {kind.code: kind for kind in (KeyMismatch, Closed, Expired)}[code](body["problem"])
        case "invalid" | "too_late" | "superseded":
            return TurnedAway(body["problem"])
    return Unknown(f"code {code}")


def _rejection(code: str, body: dict[str, Any]) -> OutOfStock | NoSuchReservation:
    return OutOfStock(body["sku"], body["units"]) if code == OutOfStock.code else NoSuchReservation(body["id"])


def _reservation(response: httpx.Response) -> Reservation:
    return _read(response, (201,), lambda body: Reservation(str(body["id"]), str(body["sku"]), int(body["units"])))


def _released(response: httpx.Response) -> Released:
    return _read(response, (200,), lambda body: Released(str(body["id"]), bool(body["released"])))


def _listed(response: httpx.Response) -> list[Listed]:
    def decoded(body: dict[str, Any]) -> list[Listed]:
        return [
            Listed(str(one["key"]), str(one["kind"]), str(one["fingerprint"]), one["value"], int(one["at_us"]))
            for one in body["receipts"]
        ]

    return _read(response, (200,), decoded)


def _known(response: httpx.Response) -> Known:
    return _read(response, (200, 404, 410), _known_from)


def _known_from(body: dict[str, Any]) -> Known:
    if "code" in body:
        return Tombstone(int(body["at_us"])) if body["code"] == Closed.code else Absent(int(body["as_of_us"]))
    value, kept = body["value"], not body["pruned"]
    if body["kind"] == "rejected":
        return Rejected(_rejection(body["error"], value) if kept else None, body["fingerprint"], body["at_us"])
    outcome = None if not kept else Released(**value) if "released" in value else Reservation(**value)
    return Applied(outcome, body["fingerprint"], body["at_us"])
