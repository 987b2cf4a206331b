"""What the driver reports, as errors that say what is certain and what to do."""

from __future__ import annotations

import struct
from typing import Any, Final

from diarist.backends.cassandra import driver
from diarist.runtime.errors import BackendError, InvalidMessageError, OutcomeName

UNFIT: Final = (TypeError, ValueError, OverflowError, struct.error)
"""Raised while a value is encoded, so before anything was sent."""

_REFUSED: Final[tuple[type[BaseException], ...]] = (
    driver.errors.RequestValidationException,  # invalid, unauthorized, configuration
    driver.errors.AuthenticationFailed,
    driver.errors.UnsupportedOperation,
    driver.errors.UnresolvableContactPoints,
    # No host took the request: nothing was sent. True because we never let the driver try a second host.
    driver.cluster.NoHostAvailable,
)


def outcome_of_error(error: BaseException) -> OutcomeName:
    """What is certain about a lightweight transaction that ended in this error.

    Almost nothing: after a time-out, a broken connection or an overloaded coordinator its proposal may have been
    accepted by some replicas, and the next one to touch the partition would complete it. `Unavailable` is certain
    where it names the serial level: that one is checked before each proposal, and a proposal that anybody accepted
    ends in a time-out instead. With the other level it comes from the commit after the proposal was accepted.
    """
    if isinstance(error, _REFUSED):
        return "not_executed"
    if isinstance(error, driver.errors.Unavailable):
        serial = getattr(error, "consistency", None) in (driver.Level.SERIAL, driver.Level.LOCAL_SERIAL)
        return "not_executed" if serial else "unknown"
    return "unknown"


def backend_error(error: BaseException, where: str, outcome: OutcomeName | None = None) -> BackendError:
    """`error` as one of ours; `outcome` None: that of a commit."""
    if isinstance(error, BackendError):
        return error
    mapped = BackendError(f"{where} {_text(error)}", outcome=outcome or outcome_of_error(error))
    mapped.__cause__ = error
    return mapped


def unfit(error: BaseException) -> InvalidMessageError:
    """For a record, or an id, that can't be encoded."""
    mapped = InvalidMessageError(f"Cassandra can't hold this value: {error}")
    mapped.__cause__ = error
    return mapped


def _text(error: BaseException) -> str:
    if isinstance(error, driver.cluster.NoHostAvailable):
        return f"can't be reached: {_hosts(error)}. It is asked again with the next request"
    if isinstance(error, driver.errors.Unavailable):
        need, alive = getattr(error, "required_replicas", "?"), getattr(error, "alive_replicas", "?")
        return f"has too few replicas up: {alive} of the {need} needed. Bring nodes back; nothing has to be restarted"
    if isinstance(error, driver.errors.OperationTimedOut):
        return "did not answer in time (request_timeout)"
    if isinstance(error, driver.errors.Timeout):
        return f"timed out between its nodes: {error}"
    if isinstance(error, driver.errors.Unauthorized):
        return f"refused: {error}. Grant SELECT and MODIFY on the keyspace, and CREATE if tables are to be made"
    if isinstance(error, driver.errors.AuthenticationFailed):
        return "refused the credentials"
    return f"failed: {type(error).__name__}: {error}"


def _hosts(error: Any) -> str:
    """The first reason of each host. Credentials are in none of them, but an authenticator's own text might be."""
    reasons: dict[Any, BaseException] = dict(getattr(error, "errors", None) or {})
    if any(isinstance(reason, driver.errors.AuthenticationFailed) for reason in reasons.values()):
        return "it refused the credentials"
    return "; ".join(f"{host}: {reason}" for host, reason in reasons.items()) or "no host of the cluster is up"
