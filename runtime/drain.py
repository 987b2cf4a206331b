"""The end of a memory, as a written sequence."""

from __future__ import annotations

from typing import Any

from diarist.runtime.engine import Engine
from diarist.runtime.errors import NotExecutedError, OutcomeUnknownError
from diarist.runtime.guards import Life
from diarist.runtime.operations import Operation, Status
from diarist.runtime.results import DrainReport

TURN_GRACE = 0.2
"""The last part of the deadline, in which running turns are ended by their policies."""


async def drain(engine: Engine, deadline: float, close_repository: bool) -> DrainReport:
    """After `Guard.refuse`: finish queues and turns -> end the turns that still run -> fail the rest -> close."""
    guard = engine.guard
    if guard.life is not Life.DRAINING:
        return DrainReport(0, 0, 0, ())
    before = engine.completed
    end = engine.clock.monotonic() + deadline
    if not await engine.quiet(end - deadline * TURN_GRACE if engine.turns else end):
        for slot in list(engine.registry):
            if slot.turns is not None:
                slot.turns.refuse_waiting()
                if slot.turns.current is not None:
                    slot.turns.current.end("the memory is closing")
        await engine.quiet(end)
    report = _fail_rest(engine, engine.completed - before)
    guard.life = Life.CLOSED
    await engine.shut_down()
    if close_repository:
        await engine.repository.close()
    return report


def _fail_rest(engine: Engine, completed: int) -> DrainReport:
    not_executed, keys = 0, list[str]()
    for operation in engine.unfinished():
        if operation.upkeep:
            pass
        elif operation.status is Status.FLYING and operation.changes:
            keys.append(operation.retry_key)
        elif operation.changes:
            not_executed += 1
        _fail(operation)
    return DrainReport(completed, not_executed, len(keys), tuple(keys))


def _fail(operation: Operation[Any]) -> None:
    if operation.status is Status.FLYING and operation.changes:
        operation.fail(
            OutcomeUnknownError(
                "the memory closed while the record was being written", idempotency_key=operation.retry_key
            )
        )
    else:
        operation.fail(NotExecutedError("the memory closed before it was its turn", idempotency_key=operation.key))
