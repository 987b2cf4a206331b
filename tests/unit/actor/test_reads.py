"""Reads: snapshot, ordered, fresh."""

from __future__ import annotations

import asyncio

import pytest

from diarist import BackendError, Limits
from tests.support.actor import failure, outcome, queued, rig, start, texts, until, user
from tests.support.faulty import StoreDown


async def test_an_ordered_read_sees_what_another_process_was_told() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.get()
        for n in range(3):
            await other.add("chat", user(str(n)))
            assert texts(await r.chat.get()) == [str(k) for k in range(n + 1)]


async def test_a_sole_writer_does_not_ask_the_store() -> None:
    async with rig(sole_writer=True) as r:
        await r.chat.add(user("0"))
        for _ in range(5):
            await r.chat.get()
        assert r.store.calls["versions"] == 0
        assert r.store.calls["load"] == 1


async def test_a_fresh_read_asks_also_for_a_sole_writer() -> None:
    async with rig(sole_writer=True) as r, r.another() as other:
        await r.chat.add(user("0"))
        await other.add("chat", user("1"))
        assert texts(await r.chat.get()) == ["0"]
        assert texts(await r.chat.get(read="fresh")) == ["0", "1"]
        assert texts(await r.chat.get()) == ["0", "1"]


async def test_a_snapshot_loads_a_cold_conversation_and_asks_nothing_of_a_live_one() -> None:
    async with rig() as r:
        await r.chat.add(user("0"))
        r.clock.advance(1000)
        assert texts(await r.chat.get(read="snapshot")) == ["0"]
        assert texts(await r.chat.get(read="snapshot")) == ["0"]
        assert (r.store.calls["load"], r.store.calls["versions"]) == (2, 0)


async def test_a_snapshot_does_not_wait_for_the_queue() -> None:
    async with rig() as r:
        await r.chat.add(user("0"))
        task, gate = await r.flying(r.chat.add(user("1")))
        assert texts(await r.chat.get(read="snapshot")) == ["0"]
        assert not task.done()
        gate.open()
        await task


@pytest.mark.parametrize("sole_writer", [False, True])
async def test_an_ordered_read_sees_what_was_queued_before_it(sole_writer: bool) -> None:
    async with rig(sole_writer=sole_writer) as r:
        await r.chat.add(user("0"))
        _, gate = await r.flying(r.chat.add(user("1")))
        before, read, after = await queued(r.chat.add(user("2")), r.chat.get(), r.chat.add(user("3")))
        gate.open()
        await asyncio.gather(before, after)
        view = await read
        assert isinstance(view, tuple)
        assert texts(view)[:3] == ["0", "1", "2"]


async def test_checks_of_one_tick_are_one_call() -> None:
    async with rig() as r:
        await asyncio.gather(*(r.memory.add(f"c{n}", user("x")) for n in range(50)))
        r.store.calls.clear()
        await asyncio.gather(*(r.memory.get(f"c{n}") for n in range(50)))
        assert r.store.calls["versions"] == 1


async def test_reads_that_keep_coming_do_not_hold_up_those_before_them() -> None:
    """A reader that was there before a check began is answered by it, whoever came during it."""
    async with rig() as r:
        await r.chat.add(user("0"))
        gate = r.store.hold("versions")
        (first,) = await queued(r.chat.get())
        for _ in range(3):
            await gate.reached()
            following = r.store.hold("versions")
            later = await queued(r.chat.get())
            gate.open()
            await until(lambda: first.done() or following.waiting)  # noqa: B023
            gate = following
            if first.done():
                break
            del later
        assert first.done()
        gate.open()


async def test_an_answer_of_a_stale_state_is_judged_again() -> None:
    """A clear of what looks empty, while another process has just added something."""
    async with rig() as r, r.another() as other:
        await r.chat.get()
        await other.add("chat", user("x"))
        assert (await r.chat.clear()).version == 2
        assert texts(await r.chat.get()) == []


async def test_a_view_carries_its_version_also_when_the_messages_are_the_same() -> None:
    async with rig() as r:
        await r.chat.add(user("x"))
        _, gate = await r.flying(r.chat.describe(title="1"))
        read, described = await queued(r.chat.get(), r.chat.describe(title="2"))
        gate.open()
        await described
        view = await read
        assert getattr(view, "version", None) == 2
        assert (await r.chat.get(read="snapshot")).version == 3


async def test_a_view_of_a_cleared_conversation_is_not_mistaken_for_a_deleted_one() -> None:
    async with rig() as r:
        await r.chat.add(user("x"))
        await r.chat.clear()
        _, gate = await r.flying(r.chat.describe(title="1"))
        read, deleted = await queued(r.chat.get(), r.chat.delete())
        gate.open()
        await asyncio.gather(read, deleted)
        assert (await r.chat.get(read="snapshot")).version == 4


@pytest.mark.parametrize("method", ["load", "versions"])
async def test_a_store_that_cannot_be_read_is_a_typed_error_and_nothing_was_executed(method: str) -> None:
    async with rig() as r:
        if method == "versions":
            await r.chat.add(user("0"))
        r.store.fail(method, StoreDown("gone"))
        error = await failure(r.chat.get())
        assert isinstance(error, BackendError)
        assert isinstance(error.__cause__, StoreDown)
        assert outcome(error).outcome == "not_executed"
        await r.chat.get()


async def test_a_load_that_fails_is_tried_again_by_the_next_call() -> None:
    async with rig(Limits(mailbox=2)) as r:
        gate = r.store.hold("load")
        r.store.fail("load", StoreDown("1"))
        tasks = await queued(*(r.chat.add(user(str(n))) for n in range(3)))
        gate.open()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(item, BackendError) for item in ended] == [True, True, False]
        assert texts(await r.chat.get()) == ["2"]


async def test_a_key_that_cannot_be_looked_up_is_not_executed() -> None:
    async with rig() as r:
        await r.chat.add(user("0"))
        r.store.fail("operations", StoreDown("gone"))
        error = await failure(r.chat.add(user("x"), idempotency_key="k"))
        assert (outcome(error).outcome, outcome(error).idempotency_key) == ("not_executed", "k")
        await r.chat.add(user("x"), idempotency_key="k")
        assert texts(await r.chat.get()) == ["0", "x"]


async def test_a_log_that_cannot_be_read_is_a_rewind_not_executed() -> None:
    async with rig() as r:
        await r.chat.add(user("0"))
        r.store.fail("read", BackendError("gone"))
        error = await failure(r.chat.rewind(1))
        assert isinstance(error, BackendError)
        assert outcome(error).outcome == "not_executed"


async def test_an_unknown_kind_of_read_is_refused() -> None:
    async with rig() as r:
        with pytest.raises(ValueError, match="newest"):
            await r.chat.get(read="newest")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("sole_writer", [False, True])
async def test_a_read_does_not_wait_for_the_commits_of_other_conversations(sole_writer: bool) -> None:
    async with rig(sole_writer=sole_writer) as r:
        assert r.store.capabilities.batches == 1
        await r.memory.add("live", user("x"))
        task, gate = await r.flying(r.chat.add(user("0")))
        (waiting,) = await queued(r.memory.add("live", user("y")))
        for _ in range(2):
            assert not await r.memory.get("cold")
        assert texts(await r.memory.get("live", read="snapshot")) == ["x"]
        assert not task.done()
        assert not waiting.done()
        gate.open()
        await asyncio.gather(task, waiting)


async def test_a_read_and_a_change_that_comes_before_its_turn_keep_their_order() -> None:
    async with rig() as r:
        await r.memory.add("live", user("x"))
        task, gate = await r.flying(r.chat.add(user("0")))
        read = start(r.memory.get("live"))
        change = start(r.memory.add("live", user("y")))
        later = start(r.memory.get("live"))
        await asyncio.sleep(0)
        gate.open()
        await asyncio.gather(task, change)
        assert (texts(await read), texts(await later)) == (["x"], ["x", "y"])
