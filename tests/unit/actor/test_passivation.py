"""Passivation: live conversations go, least recently used first, but never one with work."""

from __future__ import annotations

import asyncio

from diarist import Limits
from tests.support.actor import log_of, queued, rig, texts, until, user
from tests.support.faulty import StoreDown


async def test_the_least_recently_used_goes_first() -> None:
    async with rig(Limits(live=2), sole_writer=True) as r:
        for name in ("a", "b", "a", "c"):
            await r.memory.get(name)
        assert r.memory.stats().live == 2
        r.store.calls.clear()
        await r.memory.get("a")
        assert r.store.calls["load"] == 0
        await r.memory.get("b")
        assert r.store.calls["load"] == 1


async def test_bytes_are_bounded_too() -> None:
    async with rig(Limits(live_bytes=10_000)) as r:
        for n in range(20):
            await r.memory.add(f"c{n}", user("x" * 1000))
        stats = r.memory.stats()
        assert stats.live <= 10
        assert stats.evictions == 20 - stats.live


async def test_the_weight_of_loaded_conversations_counts() -> None:
    async with rig(Limits(live_bytes=10_000)) as r:
        async with r.another() as other:
            for n in range(20):
                await other.add(f"c{n}", user("x" * 1000))
        for n in range(20):
            await r.memory.get(f"c{n}")
        assert r.memory.stats().live <= 10


async def test_an_idle_conversation_goes_after_its_time() -> None:
    async with rig(Limits(idle_seconds=100)) as r:
        await r.chat.add(user("x"))
        r.clock.advance(90)
        assert r.memory.stats().live == 1
        r.clock.advance(30)
        assert r.memory.stats().live == 0
        assert texts(await r.chat.get()) == ["x"]


async def test_one_with_a_commit_in_flight_stays() -> None:
    async with rig(Limits(live=1, idle_seconds=10)) as r:
        await r.chat.add(user("0"))
        task, gate = await r.flying(r.chat.add(user("1"), timeout=10_000))
        r.clock.advance(100)
        for name in "abc":
            await r.memory.get(name, read="snapshot") if False else await queued(r.memory.get(name))
        await until(lambda: r.store.calls["load"] == 4)
        gate.open()
        assert (await task).version == 2
        assert await log_of(r.chat) == ["0", "1"]


async def test_a_new_conversation_is_not_evicted_by_its_own_arrival() -> None:
    """All others are busy: the newcomer must stay findable, or its next call would get a second actor."""
    async with rig(Limits(live=1)) as r:
        _, gate = await r.flying(r.chat.add(user("0")))
        tasks = await queued(*(r.memory.add("new", user(str(n))) for n in range(3)))
        await until(lambda: r.store.calls["load"] > 1)
        gate.open()
        await asyncio.gather(*tasks)
        assert r.store.calls["load"] == 2
        assert r.memory.stats().conflicts == 0


async def test_a_burst_over_the_bound_shrinks_when_it_is_over() -> None:
    async with rig(Limits(live=3)) as r:
        gate = r.store.hold("load")
        tasks = await queued(*(r.memory.get(f"c{n}") for n in range(10)))
        gate.open()
        await asyncio.gather(*tasks)
        r.clock.advance(10)
        assert r.memory.stats().live <= 3


async def test_a_message_that_arrives_while_its_conversation_is_evicted_is_stored() -> None:
    async with rig(Limits(live=1)) as r:
        for n in range(20):
            await asyncio.gather(r.memory.add("a", user(str(n))), r.memory.add("b", user(str(n))))
        for name in "ab":
            assert await log_of(r.memory.conversation(name)) == [str(n) for n in range(20)]


async def test_a_slot_whose_load_failed_is_not_kept() -> None:
    async with rig() as r:
        r.store.fail("load", StoreDown("gone"))
        await asyncio.gather(r.chat.get(), return_exceptions=True)
        assert r.memory.stats().live == 0


async def test_a_conversation_with_a_turn_stays() -> None:
    async with rig(Limits(live=1, idle_seconds=10)) as r:
        async with r.chat.turn(user("x")) as turn:
            slot = r.memory.stats().live
            r.clock.advance(100)
            await r.memory.get("other")
            assert slot == 1
            assert r.memory.stats().turns == 1
            await turn.add({"role": "assistant", "content": "y"})
        assert texts(await r.chat.get()) == ["x", "y"]
