"""The inventory over HTTP: one transaction per request, with the receipt in it.

    POST /reservations {sku, units}     201, or 409 out_of_stock     both remembered under the header Idempotency-Key
    POST /reservations/{id}/release     200, or 404                  the compensation, under a key of its own
    GET  /keys/{key}                    200 the receipt, 404 absent, 409 in flight, 410 closed
    POST /keys/{key}/close              200 the outcome if there is one, else 410: refused for ever
    GET  /receipts?since_us=&after=     200 decided keys behind `after`, a page of them by key
    GET  /stock/{sku}                   200
    GET  /executions/{key}              200 how often the effect was really executed
    GET  /paused/[{key}], POST /resume  for demos and tests, see pause.py

A replay carries `Idempotent-Replayed: true`. Another request under a key is a 422; a key whose first request is still running a 409 with
code in_flight and Retry-After. A request may carry `Not-After-Us` and `Epoch`, and is refused with 412 if it comes too late.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from recovery import receipts
from recovery.core.errors import InvalidName
from recovery.core.ids import check_key
from recovery.examples.inventory import stock
from recovery.examples.inventory.pause import Pause
from recovery.examples.inventory.wire import (
    REJECTION_STATUS,
    BadRequest,
    epoch_in,
    error_reply,
    invalid,
    json_body,
    number_in,
    query_number,
    refused,
)

RECEIPT = receipts.table(stock.metadata)

SKU = re.compile(r"[A-Za-z0-9._-]{1,64}")
UNITS_MAX = 1000
PAGE = 500


@dataclass
class Service:
    engine: sa.Engine
    register: receipts.Receipts
    pause: Pause

    async def reserve(self, request: Request) -> Response:
        body = await json_body(request)
        match body:
            case {"sku": str(sku), "units": int(units), **more} if not more and SKU.fullmatch(sku) and _countable(units):
                return await self._once(request, body, 201, lambda connection, key: stock.reserve(connection, key, sku, units))
        return error_reply(400, "invalid", problem=f"send {{sku: {SKU.pattern}, units: 1 to {UNITS_MAX}}}")

    async def release(self, request: Request) -> Response:
        number = request.path_params["id"]
        return await self._once(request, None, 200, lambda connection, key: stock.release(connection, key, number))

    async def _once(
        self, request: Request, body: Any, status: int, effect: Callable[[sa.Connection, str], dict[str, Any]]
    ) -> Response:
        key = check_key(request.headers.get("idempotency-key", ""))
        not_after_us, epoch = number_in(request, "not-after-us"), epoch_in(request)
        fingerprint = receipts.fingerprint([request.method, request.url.path, body])

        def run() -> receipts.Receipt:
            with self.engine.begin() as connection:

                def work() -> dict[str, Any]:
                    outcome = effect(connection, key)
                    if self.pause.where:
                        anyio.from_thread.run(self.pause.hold, "in-transaction", key)
                    return outcome

                return self.register.once(
                    connection,
                    key=key,
                    fingerprint=fingerprint,
                    work=work,
                    rejects=(stock.OutOfStock, stock.NoSuchReservation),
                    not_after_us=not_after_us,
                    epoch=epoch,
                    who=request.headers.get("user-agent", "")[:255],
                )

        receipt = await run_in_threadpool(run)
        if not receipt.replayed:
            await self.pause.hold("after-commit", key)
        headers = {"Idempotent-Replayed": "true"} if receipt.replayed else {}
        if receipt.kind == receipts.Kind.APPLIED:
            return JSONResponse(receipt.value, status, headers)
        return error_reply(REJECTION_STATUS[receipt.error], receipt.error, headers, **receipt.value)

    async def look_up(self, request: Request) -> Response:
        return await self._about_key(request, self.register.look_up)

    async def close(self, request: Request) -> Response:
        return await self._about_key(request, self.register.close)

    async def _about_key(self, request: Request, ask: Callable[..., receipts.Receipt | receipts.Absent]) -> Response:
        epoch = epoch_in(request)

        def run() -> receipts.Receipt | receipts.Absent:
            with self.engine.begin() as connection:
                return ask(connection, key=request.path_params["key"], epoch=epoch)

        found = await run_in_threadpool(run)
        if isinstance(found, receipts.Absent):
            return error_reply(404, "absent", as_of_us=found.as_of_us)
        if found.kind == receipts.Kind.CLOSED:
            return error_reply(410, "closed", at_us=found.at_us)
        fields = ("kind", "fingerprint", "error", "value", "at_us", "who", "pruned")
        return JSONResponse({name: getattr(found, name) for name in fields})

    async def receipts(self, request: Request) -> Response:
        since_us, after = query_number(request, "since_us"), request.query_params.get("after", "")

        def run() -> list[receipts.Receipt]:
            with self.engine.connect() as connection:
                return self.register.listed(connection, since_us=since_us, after=after, limit=PAGE)

        found = await run_in_threadpool(run)
        fields = ("key", "kind", "fingerprint", "error", "value", "at_us")
        return JSONResponse({"receipts": [{name: getattr(one, name) for name in fields} for one in found]})

    async def in_stock(self, request: Request) -> Response:
        sku = request.path_params["sku"]
        return JSONResponse({"sku": sku, "units": await self._read(lambda connection: stock.in_stock(connection, sku))})

    async def executions(self, request: Request) -> Response:
        key = request.path_params["key"]
        return JSONResponse({"key": key, "times": await self._read(lambda connection: stock.executions(connection, key))})

    async def _read(self, question: Callable[[sa.Connection], int]) -> int:
        def run() -> int:
            with self.engine.connect() as connection:
                return question(connection)

        return await run_in_threadpool(run)

    async def paused(self, request: Request) -> Response:
        await self.pause.until_reached(request.path_params["key"])
        return Response(status_code=204)

    async def resume(self, _: Request) -> Response:
        self.pause.resume()
        return Response(status_code=204)


def application(engine: sa.Engine, register: receipts.Receipts, pause: Pause) -> Starlette:
    """The ASGI application. The database must have its tables."""
    service = Service(engine, register, pause)
    routes = [
        Route("/reservations", service.reserve, methods=["POST"]),
        Route("/reservations/{id}/release", service.release, methods=["POST"]),
        Route("/keys/{key:path}/close", service.close, methods=["POST"]),
        Route("/keys/{key:path}", service.look_up),
        Route("/receipts", service.receipts),
        Route("/stock/{sku}", service.in_stock),
        Route("/executions/{key:path}", service.executions),
        Route("/paused/{key:path}", service.paused),
        Route("/resume", service.resume, methods=["POST"]),
    ]
    return Starlette(
        routes=routes, exception_handlers={receipts.ReceiptRefusal: refused, InvalidName: invalid, BadRequest: invalid}
    )


def _countable(units: int) -> bool:
    return not isinstance(units, bool) and 1 <= units <= UNITS_MAX
