"""Unknown outcomes: the same record is sent again until somebody holds its version.

Absence proves nothing: a write that timed out may still land. Whoever holds the version decides: our operations
there, and it was executed; another's, and it can't be any more.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from diarist.runtime.draft import Draft
from diarist.runtime.errors import BackendError, ConflictError, DiaristError, OutcomeUnknownError
from diarist.runtime.guards import Life
from diarist.runtime.log import decode_record
from diarist.runtime.operations import Operation
from diarist.runtime.repository import (
    CommitOutcome,
    Committed,
    Conflict,
    Failed,
    Rejected,
    Unknown,
)

if TYPE_CHECKING:
    from diarist.runtime.engine import Engine

logger = logging.getLogger("diarist.runtime")

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 5.0
"""Seconds between tries to settle: doubled each time, jittered."""


class Settler:
    """Settles suspect slots, each in a task of its own; the slot's mail waits meanwhile."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def settle(self, draft: Draft, outcome: Unknown) -> None:
        """Find out what became of a draft whose commit ended without an answer."""
        if self._engine.guard.life is Life.CLOSED:
            return  # its callers were told at the end of the drain, and the store is closed
        logger.warning(
            "a commit ended without an answer: settling it",
            extra=self._about(draft),
            exc_info=outcome.error if logger.isEnabledFor(logging.DEBUG) else None,
        )
        self._engine.start(self._settle(draft))

    def _about(self, draft: Draft) -> dict[str, Any]:
        key = draft.slot.key
        return {
            "namespace": key.namespace,
            "conversation": key.id,
            "version": draft.base.version + 1,
            "operations": list(draft.commit.operations) if draft.commit else [],
        }

    async def _settle(self, draft: Draft) -> None:
        scheduler = self._engine.scheduler
        pause = FIRST_PAUSE
        while True:
            verdict = await self._try(draft)
            if verdict is not None:
                break
            await self._engine.pause(pause * (0.5 + self._engine.environment.random.random()))
            pause = min(2 * pause, LONGEST_PAUSE)
        logger.info("settled: %s", type(verdict).__name__.lower(), extra=self._about(draft))
        if isinstance(verdict, Committed) and draft.slot.state is None:
            scheduler.committed_unseen(draft)
        else:
            scheduler.settled(draft, verdict)

    async def _try(self, draft: Draft) -> CommitOutcome | None:
        """One try; None: still nobody knows."""
        assert draft.commit is not None
        outcomes: list[CommitOutcome] = []
        try:
            await self._engine.repository.commit([draft.commit], lambda _index, outcome: outcomes.append(outcome))
            outcome = outcomes[0] if outcomes else None
            if isinstance(outcome, Conflict):
                return await self._holder(draft, outcome)
        except Exception:
            return None
        if isinstance(outcome, Unknown | Failed | Rejected):
            # This try did not happen, which says nothing about the first one.
            return None
        return outcome

    async def _holder(self, draft: Draft, conflict: Conflict) -> CommitOutcome | None:
        """Who stands at the version that our record wanted."""
        commit = draft.commit
        assert commit is not None
        first = commit.record.first
        found = await self._engine.repository.read(commit.key, first, first, limit=1)
        if found:
            held = [entry.operation for entry in decode_record(first, found[0].payload, found[0].at).entries]
            if held != list(commit.operations):
                return conflict
            draft.slot.forget()
            return Committed()
        if conflict.actual is not None and conflict.actual[1] >= first:
            # A record of several entries stands across our version: it is not ours.
            return conflict
        self._lost_track(draft)
        return conflict

    def _lost_track(self, draft: Draft) -> None:
        """Deleted and swept meanwhile: whether our record was ever there can't be told any more."""
        for operation, _, error in draft.answers:
            if error is None and operation.changes and not operation.future.done():
                operation.future.set_exception(
                    OutcomeUnknownError(
                        "the conversation was deleted before the outcome was known",
                        idempotency_key=operation.retry_key,
                    )
                )

    def gave_up(self, conflict: Conflict) -> ConflictError:
        """After `Limits.conflicts` tries."""
        actual = conflict.actual[1] if conflict.actual else None
        return ConflictError("others kept changing the conversation", actual_version=actual)

    def copy(self, error: DiaristError, operation: Operation[Any]) -> DiaristError:
        """One error per caller: an exception object that several callers share would mix their tracebacks."""
        copy: DiaristError
        if isinstance(error, ConflictError):
            copy = ConflictError(str(error), actual_version=error.actual_version)
        elif isinstance(error, BackendError):
            copy = type(error)(str(error), outcome="not_executed")
        else:
            copy = type(error)(str(error))
        copy.idempotency_key = operation.key
        copy.__cause__ = error.__cause__
        return copy
