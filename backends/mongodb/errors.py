"""What the driver reports, as errors that say what is certain and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    ExecutionTimeout,
    InvalidOperation,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteError,
)

from diarist.runtime.errors import BackendError, DiaristError, InvalidMessageError, OutcomeName, SchemaError

DUPLICATE: Final = 11000

_TOO_LARGE: Final = {10334, 17280, 17419, 17420}

_REFUSED: Final = {
    2: "refuses the command",
    9: "refuses the command",
    13: "lets this user not do that. Give it the role readWrite on the database",
    18: "refuses the credentials",
    26: "has no such collection",
    59: "does not know the command",
    121: "has a validation rule that refuses the document. Take it off the collection",
    8000: "refuses the credentials",
    14031: "has no disk space left. Free some; nothing has to be restarted",
}
"""Codes with which a server tells that it did nothing at all."""


def backend_error(error: BaseException, where: str, outcome: OutcomeName) -> BackendError:
    """`error` as one of ours. `where` names the store, without credentials."""
    if isinstance(error, BackendError):
        return error
    mapped = _kind(error)(f"the store {where} {_text(error)}", outcome=outcome)
    mapped.__cause__ = error
    return mapped


def _kind(error: BaseException) -> type[BackendError]:
    return SchemaError if isinstance(error, ConfigurationError) else BackendError


def _text(error: BaseException) -> str:
    if isinstance(error, ServerSelectionTimeoutError):
        return f"can't be reached: no server to talk to. Look at its address, and whether it runs ({_brief(error)})"
    if isinstance(error, NetworkTimeout | ExecutionTimeout):
        return f"did not answer in time ({_brief(error)})"
    if isinstance(error, ConnectionFailure):
        return f"broke the connection ({_brief(error)})"
    if isinstance(error, OperationFailure) and error.code in _REFUSED:
        return f"{_REFUSED[error.code]} ({_brief(error)})"
    return f"failed: {_brief(error)}"


def _brief(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:300]}…"


def not_executed(error: BaseException, retries: bool) -> bool:
    """Whether it is certain that a write with this error did not and will not happen.

    `retries`: the driver may send a write a second time; then a refused connection speaks of that second try only.
    A server selection that timed out does not: the driver raises the first try's error instead.
    """
    if isinstance(error, ServerSelectionTimeoutError | ConfigurationError | InvalidOperation):
        return True
    if isinstance(error, OperationFailure) and error.code in _REFUSED:
        return True
    return not retries and any(isinstance(cause, ConnectionRefusedError) for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def refusal(failure: Mapping[str, Any], where: str) -> DiaristError:
    """The error for one document that the server refused. A driver's own error would quote the document."""
    cause = WriteError(str(failure.get("errmsg", "")), failure.get("code"))
    if failure.get("code") in _TOO_LARGE:
        mapped: DiaristError = InvalidMessageError(f"the document is too large for the store: {_brief(cause)}")
    elif failure.get("code") in _REFUSED:
        return backend_error(cause, where, "not_executed")
    else:
        mapped = BackendError(f"the store {where} failed: {_brief(cause)}", outcome="unknown")
    mapped.__cause__ = cause
    return mapped


def is_driver_error(error: BaseException) -> bool:
    return isinstance(error, PyMongoError)
