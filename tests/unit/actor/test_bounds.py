"""Bounds: on by default, and at each the promised behaviour."""

from __future__ import annotations

import asyncio

import pytest

from diarist import Limits, MailboxFullError, NotExecutedError
from tests.support.actor import failure, log_of, outcome, queued, rig, until, user
from tests.support.faulty import Fault


async def test_a_full_mailbox_makes_callers_wait_in_submission_order() -> None:
    async with rig(Limits(mailbox=2)) as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        tasks = await queued(*(r.chat.add(user(str(n))) for n in range(1, 12)))
        assert r.memory.stats().waiting == 10
        gate.open()
        await asyncio.gather(first, *tasks)
        assert await log_of(r.chat) == [str(n) for n in range(12)]
        assert r.memory.stats().waiting == 0


async def test_a_full_mailbox_does_not_hold_up_other_conversations() -> None:
    async with rig(Limits(mailbox=1), capabilities={"batches": 2}) as r:
        _, gate = await r.flying(r.chat.add(user("0")))
        waiting = await queued(r.chat.add(user("1")))
        assert (await r.memory.add("other", user("x"))).version == 1
        gate.open()
        await asyncio.gather(*waiting)


@pytest.mark.parametrize("limits", [Limits(mailbox=1, overflow="raise"), Limits(operations=1, overflow="raise")])
async def test_overflow_raise_tells_when_to_come_again(limits: Limits) -> None:
    async with rig(limits) as r:
        task, gate = await r.flying(r.chat.add(user("0")))
        error = await failure(r.chat.add(user("1"), idempotency_key="k"))
        assert isinstance(error, MailboxFullError)
        assert error.retry_after > 0
        assert outcome(error).outcome == "not_executed"
        assert outcome(error).idempotency_key == "k"
        gate.open()
        await task
        await r.chat.add(user("1"), idempotency_key="k")
        assert await log_of(r.chat) == ["0", "1"]


async def test_operations_over_all_conversations_are_bounded() -> None:
    async with rig(Limits(operations=3)) as r:
        _, gate = await r.flying(r.chat.add(user("0")))
        tasks = await queued(*(r.memory.add(f"c{n}", user("x")) for n in range(8)))
        stats = r.memory.stats()
        assert (stats.queued + stats.in_flight, stats.waiting) == (3, 6)
        gate.open()
        await asyncio.gather(*tasks)


async def test_bytes_over_all_conversations_are_bounded() -> None:
    async with rig(Limits(bytes=3000)) as r:
        _, gate = await r.flying(r.chat.add(user("x" * 1000)))
        tasks = await queued(*(r.memory.add(f"c{n}", user("x" * 1000)) for n in range(5)))
        assert r.memory.stats().bytes <= 3000
        assert r.memory.stats().waiting == 4
        gate.open()
        await asyncio.gather(*tasks)
        assert r.memory.stats().bytes == 0


async def test_a_message_larger_than_the_bound_runs_alone() -> None:
    async with rig(Limits(bytes=500)) as r:
        first, gate = await r.flying(r.chat.add(user("small")))
        tasks = await queued(r.chat.add(user("x" * 5000)), r.chat.add(user("y")))
        gate.open()
        await asyncio.gather(first, *tasks)
        assert [text[:1] for text in await log_of(r.chat)] == ["s", "x", "y"]


async def test_the_bound_holds_while_a_slot_loads() -> None:
    async with rig(Limits(mailbox=2, overflow="raise")) as r:
        gate = r.store.hold("load")
        tasks = await queued(r.chat.add(user("0")), r.chat.add(user("1")))
        assert isinstance(await failure(r.chat.add(user("2"))), MailboxFullError)
        gate.open()
        await asyncio.gather(*tasks)


async def test_a_hot_conversation_does_not_starve_those_that_wait_for_room() -> None:
    """Places that become free go round among the conversations that wait."""
    async with rig(Limits(operations=2)) as r:
        first, gate = await r.flying(r.chat.add(user("hot")))
        hot = await queued(*(r.chat.add(user(f"hot{n}")) for n in range(50)))
        (cold,) = await queued(r.memory.add("cold", user("x")))
        gate.open()
        await cold
        assert sum(task.done() for task in hot) < 10
        await asyncio.gather(first, *hot)
        assert await log_of(r.chat) == ["hot", *(f"hot{n}" for n in range(50))]


async def test_a_waiting_call_that_gives_up_frees_its_place_in_the_queue() -> None:
    async with rig(Limits(mailbox=1)) as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        gone, stays = await queued(r.chat.add(user("gone")), r.chat.add(user("stays")))
        gone.cancel()
        assert outcome(await failure(gone)).outcome == "not_executed"
        assert r.memory.stats().waiting == 1
        gate.open()
        await asyncio.gather(first, stays)
        assert await log_of(r.chat) == ["0", "stays"]


async def test_calls_that_gave_up_are_not_kept_while_a_commit_hangs() -> None:
    """An outage of an hour must not fill the memory with what timed out long ago."""
    async with rig(Limits(mailbox=4)) as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        slot = next(iter(r.memory._engine.registry))  # pyright: ignore[reportPrivateUsage]
        for _ in range(200):
            calls = await queued(*(r.chat.add(user("x" * 100), timeout=1) for _ in range(6)))
            r.clock.advance(2)
            for call in calls:
                assert isinstance(await failure(call), NotExecutedError)
        assert len(slot.mail or ()) + len(slot.waiting or ()) < 200
        gate.open()
        assert outcome(await failure(first)).outcome == "unknown"
        await until(lambda: r.memory.stats().in_flight == 0)
        assert await log_of(r.chat) == ["0"]


async def test_loads_are_bounded() -> None:
    async with rig(Limits(loads=2)) as r:
        gates = [r.store.hold("load") for _ in range(6)]
        tasks = await queued(*(r.memory.get(f"c{n}") for n in range(6)))
        await until(lambda: r.store.calls["load"] == 2)
        for place, gate in enumerate(gates):
            await gate.reached()
            assert sum(item.waiting for item in gates) - place <= 2
            gate.open()
        await asyncio.gather(*tasks)
        assert r.memory.stats().loads == 6


async def test_places_are_free_again_after_every_kind_of_end() -> None:
    async with rig(Limits(mailbox=3, operations=3)) as r:
        r.store.script.extend([Fault.FAILED, Fault.CONFLICT, Fault.NONE, Fault.DONE, Fault.NONE, Fault.LOST])
        for n in range(5):
            await asyncio.gather(r.chat.add(user(str(n))), return_exceptions=True)
            r.clock.advance(1)
        r.clock.advance(10)
        stats = r.memory.stats()
        assert (stats.queued, stats.in_flight, stats.waiting, stats.bytes) == (0, 0, 0, 0)


@pytest.mark.parametrize("name", ["mailbox", "live", "loads", "operations", "bytes", "timeout"])
def test_a_bound_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(**{name: 0})  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
