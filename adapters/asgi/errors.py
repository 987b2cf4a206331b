"""Our errors as HTTP answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from diarist.runtime.errors import (
    ClosedError,
    ConflictError,
    DiaristError,
    FellBehindError,
    IdempotencyError,
    InvalidIdError,
    InvalidMessageError,
    MailboxFullError,
    NotExecutedError,
    NotFoundError,
    OutcomeUnknownError,
    OwnerError,
    TurnInterruptedError,
    TurnRejectedError,
)

STATUS: dict[type[DiaristError], int] = {
    InvalidMessageError: 422,
    InvalidIdError: 422,
    IdempotencyError: 422,
    NotFoundError: 404,
    OwnerError: 403,
    TurnRejectedError: 409,
    TurnInterruptedError: 409,
    ConflictError: 409,
    FellBehindError: 409,
    MailboxFullError: 503,
    ClosedError: 503,
    NotExecutedError: 503,
    OutcomeUnknownError: 503,
}
"""HTTP statuses; 500 for the rest."""

RETRY_SECONDS = 5
"""What a client is told to wait while a server closes, or its store is slow."""


def status_of(error: DiaristError) -> int:
    """The HTTP status for an error."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def error_body(error: DiaristError) -> dict[str, Any]:
    """What a client is told: the error's name and text, what is certain about the call, and how to repeat it.

    A store's own words stay in the log: they may name hosts and files.
    """
    text = str(error) if status_of(error) != 500 else "the store failed"
    body = {"error": type(error).__name__, "detail": text, "outcome": error.outcome}
    return body if error.idempotency_key is None else {**body, "idempotency_key": error.idempotency_key}


def error_response(error: DiaristError) -> Response:
    """The answer for an error."""
    status = status_of(error)
    after = error.retry_after if isinstance(error, MailboxFullError) else RETRY_SECONDS
    headers = {"retry-after": str(math.ceil(after))} if status == 503 else None
    return JSONResponse(error_body(error), status, headers)


async def _handle(_request: Request, error: DiaristError) -> Response:
    return error_response(error)


exception_handlers: dict[Any, Callable[[Request, Any], Coroutine[Any, Any, Response]]] = dict.fromkeys(
    (*STATUS, DiaristError), _handle
)
"""For `FastAPI(exception_handlers=…)` and `Starlette(exception_handlers=…)`."""
