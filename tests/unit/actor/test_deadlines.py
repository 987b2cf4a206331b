"""Deadlines: without a timer each, at every stage, and truthful."""

from __future__ import annotations

import asyncio
import math

import pytest

from diarist import Limits, NotExecutedError, OutcomeUnknownError
from tests.support.actor import failure, log_of, outcome, queued, retry_key_of, rig, start, until, user
from tests.support.faulty import Fault


async def test_a_deadline_in_the_queue_is_not_executed() -> None:
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(user("0"), timeout=1000))
        (late,) = await queued(r.chat.add(user("x"), timeout=5, idempotency_key="k"))
        r.clock.advance(4.9)
        await asyncio.sleep(0)
        assert not late.done()
        r.clock.advance(0.3)
        error = await failure(late)
        assert isinstance(error, NotExecutedError)
        assert outcome(error).idempotency_key == "k"
        gate.open()
        await first
        assert await log_of(r.chat) == ["0"]


async def test_a_deadline_while_waiting_for_room_is_not_executed() -> None:
    async with rig(Limits(mailbox=1)) as r:
        first, gate = await r.flying(r.chat.add(user("0"), timeout=1000))
        (late,) = await queued(r.chat.add(user("x"), timeout=5))
        r.clock.advance(6)
        assert isinstance(await failure(late), NotExecutedError)
        assert r.memory.stats().waiting == 0
        gate.open()
        await first


async def test_a_deadline_during_the_load_is_not_executed() -> None:
    async with rig() as r:
        gate = r.store.hold("load")
        (late,) = await queued(r.chat.add(user("x")))
        r.clock.advance(31)
        assert isinstance(await failure(late), NotExecutedError)
        gate.open()
        assert await log_of(r.chat) == []


async def test_a_deadline_in_flight_is_unknown() -> None:
    async with rig(Limits(timeout=7)) as r:
        task, gate = await r.flying(r.chat.add(user("x")))
        r.clock.advance(8)
        error = await failure(task)
        assert isinstance(error, OutcomeUnknownError)
        gate.open()
        assert (await r.chat.add(user("x"), idempotency_key=retry_key_of(error))).replayed


async def test_a_deadline_of_a_read_was_not_executed() -> None:
    async with rig() as r:
        _, gate = await r.flying(r.chat.add(user("x"), timeout=1000))
        (read,) = await queued(r.chat.get())
        r.clock.advance(31)
        assert isinstance(await failure(read), NotExecutedError)
        gate.open()


async def test_a_deadline_after_a_conflict_was_not_executed() -> None:
    async with rig() as r:
        await r.chat.add(user("0"))
        r.store.script.append(Fault.CONFLICT)
        gates = r.store.hold("load")
        task = start(r.chat.add(user("x")))
        await gates.reached()
        r.clock.advance(31)
        assert isinstance(await failure(task), NotExecutedError)
        gates.open()
        assert await log_of(r.chat) == ["0"]


async def test_all_deadlines_share_one_timer() -> None:
    async with rig() as r:
        before = r.clock.timers
        first, gate = await r.flying(r.chat.add(user("0")))
        tasks = await queued(*(r.chat.add(user(str(n)), timeout=1 + n) for n in range(50)))
        assert r.clock.timers <= before + 1
        gate.open()
        await asyncio.gather(first, *tasks)


async def test_a_shorter_deadline_after_a_longer_one_is_kept() -> None:
    async with rig() as r:
        _, gate = await r.flying(r.chat.add(user("0"), timeout=500))
        long, short = await queued(r.chat.add(user("1"), timeout=100), r.chat.add(user("2"), timeout=1))
        r.clock.advance(1.2)
        assert isinstance(await failure(short), NotExecutedError)
        r.clock.advance(50)
        await asyncio.sleep(0)
        assert not long.done()
        gate.open()
        await long


async def test_no_deadline_is_infinity() -> None:
    async with rig() as r:
        task, gate = await r.flying(r.chat.add(user("x"), timeout=math.inf))
        r.clock.advance(100_000)
        await asyncio.sleep(0)
        assert not task.done()
        gate.open()
        assert (await task).version == 1


@pytest.mark.parametrize("timeout", [math.nan, "5"])
async def test_a_time_out_that_is_none_is_refused_before_anything_is_queued(timeout: float) -> None:
    async with rig() as r:
        with pytest.raises((ValueError, TypeError)):
            await r.chat.add(user("x"), timeout=timeout)
        assert r.memory.stats().queued == 0
        assert await log_of(r.chat) == []


@pytest.mark.parametrize("timeout", [0, -1, -math.inf])
async def test_a_deadline_that_has_passed_already_ends_soon(timeout: float) -> None:
    async with rig() as r:
        _, gate = await r.flying(r.chat.add(user("0"), timeout=1000))
        (late,) = await queued(r.chat.add(user("x"), timeout=timeout))
        r.clock.advance(0.2)
        assert isinstance(await failure(late), NotExecutedError)
        gate.open()


async def test_callers_at_one_deadline_all_get_their_errors() -> None:
    async with rig() as r:
        _, gate = await r.flying(r.chat.add(user("0"), timeout=1000))
        tasks = await queued(*(r.chat.add(user(str(n)), timeout=3) for n in range(20)))
        r.clock.advance(4)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(item, NotExecutedError) for item in ended)
        gate.open()
        await until(lambda: not r.memory.stats().in_flight)
        assert await log_of(r.chat) == ["0"]
