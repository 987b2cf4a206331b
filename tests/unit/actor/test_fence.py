"""The fence: every commit is a compare-and-set, and what a caller expects is compared with the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from diarist import ConflictError, Limits, Message, Receipt
from tests.support.actor import failure, log_of, outcome, queued, rig, start, texts, until, user
from tests.support.faulty import Fault


async def test_a_conflict_is_applied_again_on_the_reloaded_state() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("0"))
        await other.add("chat", user("theirs"))
        assert await r.chat.add(user("ours")) == Receipt(3, 2, 1)
        assert await log_of(r.chat) == ["0", "theirs", "ours"]
        assert r.memory.stats().conflicts == 1


async def test_a_conflict_keeps_the_order_of_the_queue() -> None:
    async with rig() as r, r.another() as other:
        first, gate = await r.flying(r.chat.add(user("0")))
        tasks = await queued(*(r.chat.add(user(str(n))) for n in range(1, 9)))
        await other.add("chat", user("theirs"))
        gate.open()
        await asyncio.gather(first, *tasks)
        assert await log_of(r.chat) == ["theirs", *(str(n) for n in range(9))]


async def test_after_the_last_try_it_is_a_conflict_error_and_not_executed() -> None:
    async with rig(Limits(conflicts=3)) as r:
        await r.chat.add(user("0"))
        r.store.script.extend([Fault.CONFLICT] * 4)
        task = start(r.chat.add(user("x"), idempotency_key="k"))
        for _ in range(20):
            r.clock.advance(1)
            await asyncio.sleep(0)
        await until(task.done)
        error = await failure(task)
        assert isinstance(error, ConflictError)
        assert error.actual_version == 1
        assert outcome(error).outcome == "not_executed"
        assert outcome(error).idempotency_key == "k"
        assert len(r.store.commits) == 5
        assert await r.chat.add(user("y")) == Receipt(2, 1, 1)


async def test_tries_are_counted_anew_after_a_success() -> None:
    async with rig(Limits(conflicts=1)) as r:
        for n in range(5):
            r.store.script.append(Fault.CONFLICT)
            await r.chat.add(user(str(n)))
        assert await log_of(r.chat) == [str(n) for n in range(5)]


async def test_an_expected_version_is_compared_with_what_another_process_wrote() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("0"))
        await other.add("chat", user("theirs"))
        assert (await r.chat.add(user("x"), expected_version=2)).version == 3
        await other.add("chat", user("theirs"))
        error = await failure(r.chat.add(user("y"), expected_version=3))
        assert isinstance(error, ConflictError)
        assert error.actual_version == 4


@pytest.mark.parametrize("call", ["add", "clear", "update", "rewind", "delete", "describe"])
async def test_every_change_takes_an_expected_version(call: str) -> None:
    async with rig() as r:
        await r.chat.add(user("0"))
        calls = {
            "add": lambda: r.chat.add(user("x"), expected_version=5),
            "clear": lambda: r.chat.clear(expected_version=5),
            "update": lambda: r.chat.update(lambda view: [], expected_version=5),
            "rewind": lambda: r.chat.rewind(0, expected_version=5),
            "delete": lambda: r.chat.delete(expected_version=5),
            "describe": lambda: r.chat.describe(title="t", expected_version=5),
        }
        error = await failure(calls[call]())
        assert isinstance(error, ConflictError)
        assert error.actual_version == 1
        assert texts(await r.chat.get()) == ["0"]


async def test_an_expected_version_of_zero_is_for_what_does_not_exist() -> None:
    async with rig() as r:
        assert (await r.chat.add(user("x"), expected_version=0)).version == 1
        assert isinstance(await failure(r.chat.add(user("y"), expected_version=0)), ConflictError)
        await r.chat.clear()
        assert isinstance(await failure(r.chat.add(user("y"), expected_version=0)), ConflictError)
        await r.chat.delete()
        assert (await r.chat.add(user("z"), expected_version=0)).version == 4


async def test_an_expected_version_of_a_life_that_ended_is_stale() -> None:
    async with rig() as r:
        await r.chat.add(user("x"))
        await r.chat.delete()
        error = await failure(r.chat.add(user("y"), expected_version=1))
        assert isinstance(error, ConflictError)
        assert error.actual_version == 2


async def test_an_expected_version_counts_calls_before_it_in_the_queue() -> None:
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        tasks = await queued(r.chat.add(user("1")), r.chat.add(user("2"), expected_version=2))
        gate.open()
        await asyncio.gather(first, *tasks)
        assert await log_of(r.chat) == ["0", "1", "2"]


async def test_a_stale_memory_does_not_bring_back_what_was_deleted_and_made_anew() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("old"))
        theirs = other.conversation("chat")
        await theirs.delete()
        await theirs.add(user("new"))
        receipt = await r.chat.add(user("x"))
        assert (receipt.first, texts(await r.chat.get())) == (1, ["new", "x"])
        assert await log_of(r.chat) == ["new", "x"]


async def test_a_stale_memory_sees_a_deletion() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("old"))
        await other.conversation("chat").delete()
        seen: list[list[str]] = []

        def function(view: Sequence[Message]) -> list[Message]:
            seen.append(texts(view))
            return [*view, user("x")]

        await r.chat.update(function)
        assert seen[-1] == []
        assert texts(await r.chat.get()) == ["x"]


async def test_a_deletion_during_a_flight_is_not_undone() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("old"))
        task, gate = await r.flying(r.chat.add(user("x")))
        await other.conversation("chat").delete()
        gate.open()
        assert (await task).first == 0
        assert await log_of(r.chat) == ["x"]


async def test_a_slot_that_was_not_confirmed_for_a_minute_is_confirmed_before_it_writes() -> None:
    async with rig(sole_writer=True) as r:
        await r.chat.add(user("0"))
        r.clock.advance(59)
        await r.chat.add(user("1"))
        assert r.store.calls["versions"] == 0
        r.clock.advance(61)
        await r.chat.add(user("2"))
        assert r.store.calls["versions"] == 1


async def test_a_minute_later_a_swept_conversation_is_not_gone_on_with() -> None:
    async with rig(sole_writer=True) as r, r.another() as other:
        await r.chat.add(user("old"))
        await other.conversation("chat").delete()
        await r.inner.sweep(r.clock.time() + 90_000)
        r.clock.advance(61)
        assert await r.chat.add(user("x")) == Receipt(1, 0, 1)


async def test_a_rewind_that_was_prepared_before_a_confirmation_is_prepared_again() -> None:
    async with rig() as r, r.another() as other:
        for n in range(3):
            await r.chat.add(user(str(n)))
        await r.chat.clear()
        r.clock.now += 59
        gate = r.store.hold("read")
        task = start(r.chat.rewind(2, timeout=1000))
        await gate.reached()
        r.clock.now += 5
        confirming = r.store.hold("versions")
        gate.open()
        await confirming.reached()
        await other.add("chat", user("theirs"))
        confirming.open()
        await task
        assert texts(await r.chat.get()) == ["0", "1"]
        r.clock.advance(1000)
        assert texts(await r.chat.get()) == ["0", "1"]
