"""Cancelled callers: what became of the call, at every stage, and that nothing leaks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import anyio
import pytest

from diarist import Limits, Receipt, outcome_of
from tests.support.actor import failure, log_of, outcome, queued, retry_key_of, rig, start, until, user
from tests.support.faulty import Fault, Gate


async def _cancel(task: asyncio.Task[object]) -> asyncio.CancelledError:
    task.cancel()
    error = await failure(task)
    assert type(error) is asyncio.CancelledError
    return error


async def test_cancelled_while_waiting_for_room_it_never_runs() -> None:
    async with rig(Limits(mailbox=1)) as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        (waiting,) = await queued(r.chat.add(user("x"), idempotency_key="k"))
        error = await _cancel(waiting)
        assert (outcome(error).outcome, outcome(error).idempotency_key) == ("not_executed", "k")
        gate.open()
        await first
        assert await log_of(r.chat) == ["0"]


async def test_cancelled_while_queued_it_never_runs_and_frees_its_place() -> None:
    async with rig(Limits(mailbox=2)) as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        gone, last = await queued(r.chat.add(user("x")), r.chat.add(user("y")))
        assert outcome(await _cancel(gone)).outcome == "not_executed"
        assert r.memory.stats().waiting == 0
        gate.open()
        await asyncio.gather(first, last)
        assert await log_of(r.chat) == ["0", "y"]


async def test_cancelled_while_its_conversation_loads_it_never_runs() -> None:
    async with rig() as r:
        gate = r.store.hold("load")
        gone, stays = await queued(r.chat.add(user("x")), r.chat.add(user("y")))
        assert outcome(await _cancel(gone)).outcome == "not_executed"
        gate.open()
        await stays
        assert await log_of(r.chat) == ["y"]


async def test_cancelled_while_flying_it_is_unknown_and_the_commit_goes_on() -> None:
    async with rig() as r:
        task, gate = await r.flying(r.chat.add(user("x")))
        key = retry_key_of(await _cancel(task))
        retry = start(r.chat.add(user("x"), idempotency_key=key))
        gate.open()
        assert (await retry).replayed
        assert await log_of(r.chat) == ["x"]


async def test_cancelled_while_flying_a_callers_own_key_is_the_key() -> None:
    async with rig() as r:
        task, gate = await r.flying(r.chat.add(user("x"), idempotency_key="mine"))
        assert retry_key_of(await _cancel(task)) == "mine"
        gate.open()


async def test_cancelled_after_the_commit_before_the_answer_it_is_unknown() -> None:
    async with rig() as r:
        task, gate = await r.flying(r.chat.add(user("x")))
        gate.open()
        await until(lambda: r.memory.stats().commits == 1)
        assert not task.done()
        key = retry_key_of(await _cancel(task))
        assert (await r.chat.add(user("x"), idempotency_key=key)).replayed


async def test_cancelled_after_a_refusal_before_the_answer_it_was_not_executed() -> None:
    async with rig() as r:
        r.store.script.append(Fault.FAILED)
        task, gate = await r.flying(r.chat.add(user("x")))
        gate.open()
        await until(lambda: r.memory.stats().in_flight == 0)
        assert outcome(await _cancel(task)).outcome == "not_executed"


async def test_cancelled_in_a_flight_that_conflicts_it_is_dropped() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("0"))
        task, gate = await r.flying(r.chat.add(user("x")))
        await other.add("chat", user("theirs"))
        key = retry_key_of(await _cancel(task))
        gate.open()
        await until(lambda: r.memory.stats().conflicts == 1)
        assert await log_of(r.chat) == ["0", "theirs"]
        assert not (await r.chat.add(user("x"), idempotency_key=key)).replayed
        assert await log_of(r.chat) == ["0", "theirs", "x"]


async def test_cancelled_on_the_second_try_the_key_names_the_second_version() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("0"))
        task, gate = await r.flying(r.chat.add(user("x")))
        await other.add("chat", user("theirs"))
        second = r.store.hold("commit")
        gate.open()
        await second.reached()
        key = retry_key_of(await _cancel(task))
        second.open()
        await until(lambda: r.memory.stats().in_flight == 0)
        assert (await r.chat.add(user("x"), idempotency_key=key)).version == 3
        assert await log_of(r.chat) == ["0", "theirs", "x"]


async def test_cancelled_while_settling_it_is_unknown() -> None:
    async with rig() as r:
        r.store.script.extend([Fault.LOST, Fault.LOST])
        task = start(r.chat.add(user("x")))
        await until(lambda: len(r.store.commits) == 2)
        key = retry_key_of(await _cancel(task))
        retry = start(r.chat.add(user("x"), idempotency_key=key))
        await asyncio.sleep(0)
        r.clock.advance(1)
        await retry
        assert await log_of(r.chat) == ["x"]


async def test_a_cancelled_read_was_not_executed() -> None:
    async with rig() as r:
        _, gate = await r.flying(r.chat.add(user("x")))
        (read,) = await queued(r.chat.get())
        error = await _cancel(read)
        assert outcome(error).outcome == "not_executed"
        gate.open()


async def test_asyncio_timeout_is_looked_through() -> None:
    async with rig() as r:
        gate = r.store.hold("commit")
        scope = asyncio.timeout(None)
        task = start(_reschedule(scope, gate))
        key = retry_key_of(await failure(_within(scope, r.chat.add(user("x")))))
        gate.open()
        await task
        assert (await r.chat.add(user("x"), idempotency_key=key)).replayed


async def _within(scope: asyncio.Timeout, work: Coroutine[Any, Any, Receipt]) -> Receipt:
    async with scope:
        return await work


async def _reschedule(scope: asyncio.Timeout, gate: Gate) -> None:
    await gate.reached()
    scope.reschedule(asyncio.get_running_loop().time())


async def test_asyncio_wait_for_is_looked_through() -> None:
    async with rig() as r:
        gate = r.store.hold("load")
        error = await failure(asyncio.wait_for(r.chat.add(user("x"), idempotency_key="k"), 0.001))
        assert type(error) is TimeoutError
        assert (outcome(error).outcome, outcome(error).idempotency_key) == ("not_executed", "k")
        gate.open()
        assert await log_of(r.chat) == []


async def test_an_anyio_scope_swallows_its_own_cancellation() -> None:
    async with rig() as r:
        gate = r.store.hold("commit")
        seen: list[BaseException] = []
        scope = anyio.CancelScope()
        task = start(_cancel_scope(scope, gate))
        with scope:
            try:
                await r.chat.add(user("x"))
            except BaseException as error:
                seen.append(error)
                raise
        await task
        assert scope.cancelled_caught
        key = retry_key_of(seen[0])
        gate.open()
        assert (await r.chat.add(user("x"), idempotency_key=key)).replayed


async def _cancel_scope(scope: anyio.CancelScope, gate: Gate) -> None:
    await gate.reached()
    scope.cancel()


async def test_a_task_group_that_falls_takes_no_commit_with_it() -> None:
    async with rig() as r:
        gate = r.store.hold("commit")
        with pytest.raises(ExceptionGroup):  # noqa: PT012 - the group is what is tested
            async with asyncio.TaskGroup() as group:
                group.create_task(r.chat.add(user("x")))
                await gate.reached()
                raise RuntimeError("a sibling")
        gate.open()
        await until(lambda: r.memory.stats().commits == 1)
        assert await log_of(r.chat) == ["x"]


async def test_a_storm_of_cancellations_leaves_nothing_behind() -> None:
    async with rig(Limits(mailbox=10, operations=50)) as r:
        tasks = [start(r.memory.add(f"c{n % 7}", user(str(n)))) for n in range(500)]
        for step in range(500):
            if step % 2:
                tasks[step].cancel()
            if step % 10 == 0:
                await asyncio.sleep(0)
        await asyncio.wait(tasks)
        await until(lambda: r.memory.stats().in_flight == 0)
        stats = r.memory.stats()
        assert (stats.queued, stats.waiting, stats.bytes) == (0, 0, 0)
        stored = {text for n in range(7) for text in await log_of(r.memory.conversation(f"c{n}"))}
        for number, task in enumerate(tasks):
            if not task.cancelled():
                assert str(number) in stored
            elif (found := outcome_of(await failure(task))) is None or found.outcome == "not_executed":
                assert str(number) not in stored
