"""Every error that Diarist raises, under one root.

Each says what became of the operation (`outcome`): it was `executed`, it was `not_executed`, or that
is `unknown`; then a retry with the same idempotency key is safe and settles it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar, Literal

OutcomeName = Literal["executed", "not_executed", "unknown"]

_MARK = "__diarist_outcome__"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one failed or cancelled call."""

    outcome: OutcomeName
    idempotency_key: str | None = None


class DiaristError(Exception):
    """The root. `outcome` speaks of the call that raised, not of earlier tries with the same key."""

    default_outcome: ClassVar[OutcomeName] = "not_executed"

    def __init__(
        self, message: str, *, outcome: OutcomeName | None = None, idempotency_key: str | None = None
    ) -> None:
        super().__init__(message)
        self.outcome: OutcomeName = outcome or self.default_outcome
        self.idempotency_key = idempotency_key


class InvalidMessageError(DiaristError, ValueError):
    """A message, or a value inside one, can't be stored; the text names the path. Nothing was written."""


class InvalidIdError(DiaristError, ValueError):
    """An id, namespace or key is no string, blank, or over its length. Nothing was written."""


class NotFoundError(DiaristError, LookupError):
    """The message or version that the call names is not in the log (never was, or was purged)."""


class OwnerError(DiaristError, PermissionError):
    """The conversation belongs to another owner."""


class MailboxFullError(DiaristError):
    """A bound of `Limits` is reached and `overflow="raise"` was chosen. Try again after `retry_after` s."""

    def __init__(self, message: str, *, retry_after: float, idempotency_key: str | None = None) -> None:
        super().__init__(message, idempotency_key=idempotency_key)
        self.retry_after = retry_after


class ConflictError(DiaristError):
    """The conversation is not at the expected version, or others kept changing it. Read it and decide anew."""

    def __init__(
        self,
        message: str,
        *,
        actual_version: int | None = None,
        outcome: OutcomeName | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        super().__init__(message, outcome=outcome, idempotency_key=idempotency_key)
        self.actual_version = actual_version


class IdempotencyError(DiaristError):
    """The idempotency key was used in this conversation for something else. Use a new key."""


class OutcomeUnknownError(DiaristError):
    """The write may or may not have happened. Retry with `idempotency_key`: it ends stored once."""

    default_outcome: ClassVar[OutcomeName] = "unknown"


class NotExecutedError(DiaristError):
    """The operation did not run (deadline, drain) and never will. It is safe to try again."""


class ReentrancyError(DiaristError, RuntimeError):
    """An update function, or a turn, called its own conversation and would wait for itself."""


class WrongLoopError(DiaristError, RuntimeError):
    """The memory belongs to another event loop or thread."""


class ForkedError(DiaristError, RuntimeError):
    """The memory was opened before a fork. Open one of its own in the child."""


class ClosedError(DiaristError, RuntimeError):
    """The memory is not open: not entered yet, draining, or closed."""


class TurnRejectedError(DiaristError):
    """Another turn runs in this conversation and `overlap="reject"` was chosen."""


class TurnInterruptedError(DiaristError):
    """The turn was interrupted, or outlived `Limits.turn_seconds`. Its policy decided what stays of it."""

    default_outcome: ClassVar[OutcomeName] = "executed"


class FellBehindError(DiaristError):
    """A client of a detached turn is so slow, or so late, that its next chunks are not kept any more
    (`Limits.feed_bytes`). The turn goes on; its answer is in the history when it is committed."""


class BackendError(DiaristError):
    """The store failed. The driver's own error is the cause; `outcome` says what is certain."""

    default_outcome: ClassVar[OutcomeName] = "unknown"


class SchemaError(BackendError):
    """The store holds something this version can't use: a newer schema, or not a Diarist store at all."""

    default_outcome: ClassVar[OutcomeName] = "not_executed"


class MissingDependencyError(DiaristError, ImportError):
    """An optional package is missing; the text says what to install."""


def mark_outcome(error: BaseException, outcome: Outcome) -> None:
    """Attach an outcome to a foreign error that passes through (a cancellation must keep its own type)."""
    setattr(error, _MARK, outcome)


def outcome_of(error: BaseException) -> Outcome | None:
    """What became of the call that ended in `error`; None for errors that are not ours.

    A `TimeoutError` made by `asyncio.timeout` or `asyncio.wait_for` out of a cancelled call is looked through.
    """
    if isinstance(error, DiaristError):
        return Outcome(error.outcome, error.idempotency_key)
    found = getattr(error, _MARK, None)
    if isinstance(found, Outcome):
        return found
    inner = error.__cause__ or error.__context__
    if isinstance(error, TimeoutError) and isinstance(inner, asyncio.CancelledError):
        return outcome_of(inner)
    return None
