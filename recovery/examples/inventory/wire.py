"""The wire format: what is read from requests, and how refusals look in replies.

Owns parsing and status codes. Knows no database. Invariant: a 400 is answered only before anything was done.
"""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from recovery import receipts
from recovery.core.ids import Epoch

BODY_BYTES_MAX = 10_000
REJECTION_STATUS = {"out_of_stock": 409, "no_such_reservation": 404}
REFUSAL_CODE = {
    receipts.KeyMismatch: "key_mismatch",
    receipts.InFlight: "in_flight",
    receipts.Closed: "closed",
    receipts.Expired: "expired",
    receipts.TooLate: "too_late",
    receipts.Superseded: "superseded",
}


async def refused(_: Request, refusal: Exception) -> Response:
    if not isinstance(refusal, receipts.ReceiptRefusal):
        raise refusal
    headers = {}
    if isinstance(refusal, receipts.InFlight):
        headers["Retry-After"] = str(max(1, round(refusal.retry_after.total_seconds())))
    return error_reply(refusal.http_status, REFUSAL_CODE.get(type(refusal), "unfinished"), headers, problem=str(refusal))


async def invalid(_: Request, error: Exception) -> Response:
    return error_reply(400, "invalid", problem=str(error))


def error_reply(status: int, code: str, headers: dict[str, str] | None = None, **fields: Any) -> JSONResponse:
    return JSONResponse({"code": code, **fields}, status, headers)


class BadRequest(Exception):
    """Found before anything was done."""


async def json_body(request: Request) -> Any:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise BadRequest(f"the body is longer than {BODY_BYTES_MAX} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error


def number_in(request: Request, header: str) -> int | None:
    text = request.headers.get(header)
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise BadRequest(f"{header} is not a number")
    return int(text)


def query_number(request: Request, name: str) -> int:
    """A number in the query; 0 where it is not given."""
    text = request.query_params.get(name, "0")
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise BadRequest(f"{name} is not a number")
    return int(text)


def epoch_in(request: Request) -> Epoch | None:
    text = request.headers.get("epoch")
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,18})\.([0-9]{1,18})", text)
    if found is None:
        raise BadRequest("epoch is not INCARNATION.N")
    return Epoch(int(found[1]), int(found[2]))
