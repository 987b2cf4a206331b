"""Unknown outcomes: settled by sending the same record again; whoever holds its version decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from diarist import (
    ConflictError,
    IdempotencyError,
    OutcomeUnknownError,
    Receipt,
    SystemMessage,
    UserMessage,
)
from tests.support.actor import Rig, failure, log_of, outcome, queued, retry_key_of, rig, start, texts, until, user
from tests.support.faulty import Fault, StoreDown


async def _settled(r: Rig) -> None:
    """Let the settler's pauses pass until nothing is in flight."""
    for _ in range(50):
        if not r.memory.stats().in_flight:
            return
        r.clock.advance(6)
        for _ in range(50):
            await asyncio.sleep(0)
    raise AssertionError("never settled")


@pytest.mark.parametrize("fault", [Fault.DONE, Fault.LOST, Fault.LATE])
async def test_a_commit_without_an_answer_is_stored_once(fault: Fault) -> None:
    async with rig() as r:
        await r.chat.add(user("0"))
        r.store.script.append(fault)
        assert await r.chat.add(user("x")) == Receipt(2, 1, 1)
        await r.store.land()
        assert await r.chat.add(user("y")) == Receipt(3, 2, 1)
        assert await log_of(r.chat) == ["0", "x", "y"]


async def test_the_same_record_is_sent_again() -> None:
    async with rig() as r:
        r.store.script.append(Fault.LOST)
        await r.chat.add(user("x"))
        first, second = r.store.commits
        assert first == second


async def test_a_commit_call_that_raises_is_settled() -> None:
    async with rig() as r:
        r.store.fail("commit", StoreDown("gone"))
        assert (await r.chat.add(user("x"))).version == 1
        assert await log_of(r.chat) == ["x"]


async def test_the_slot_waits_until_its_outcome_is_known() -> None:
    async with rig() as r:
        r.store.script.extend([Fault.LOST, Fault.LOST, Fault.LOST])
        tasks = await queued(r.chat.add(user("x")), r.chat.add(user("y")), r.chat.get())
        await until(lambda: len(r.store.commits) == 2)
        assert not any(task.done() for task in tasks)
        await _settled(r)
        await asyncio.gather(*tasks)
        assert await log_of(r.chat) == ["x", "y"]


async def test_anothers_record_at_our_version_proves_that_ours_was_not_executed() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("0"))
        r.store.script.extend([Fault.LOST, Fault.LOST])
        task = start(r.chat.add(user("x")))
        await until(lambda: len(r.store.commits) == 3)
        await other.conversation("chat").add(user("theirs"))
        await _settled(r)
        assert await task == Receipt(3, 2, 1)
        assert await log_of(r.chat) == ["0", "theirs", "x"]


async def test_an_operation_that_was_not_executed_is_judged_anew() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("0"))
        theirs = other.conversation("chat")
        await theirs.get()
        r.store.script.extend([Fault.LOST, Fault.LOST])
        task = start(r.chat.add(user("x"), expected_version=1))
        await until(lambda: len(r.store.commits) == 3)
        await asyncio.gather(*(theirs.add(user(str(n))) for n in range(1, 4)))
        await _settled(r)
        error = await failure(task)
        assert isinstance(error, ConflictError)
        assert error.actual_version == 4
        assert outcome(error).outcome == "not_executed"


async def test_our_record_is_found_when_others_went_on_behind_it() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("0"))
        r.store.script.extend([Fault.DONE, Fault.LOST])
        task = start(r.chat.add(user("x")))
        await until(lambda: len(r.store.commits) == 3)
        await other.conversation("chat").add(user("theirs"))
        await _settled(r)
        assert await task == Receipt(2, 1, 1)
        assert texts(await r.chat.get()) == ["0", "x", "theirs"]


async def test_our_record_is_found_when_it_was_erased_meanwhile() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("0"))
        r.store.script.extend([Fault.DONE, Fault.LOST])
        task = start(r.chat.add(user("x")))
        await until(lambda: len(r.store.commits) == 3)
        await other.conversation("chat").delete()
        await _settled(r)
        assert await task == Receipt(2, 1, 1)
        assert texts(await r.chat.get()) == []


async def test_nobody_can_tell_when_the_conversation_was_deleted_and_swept_meanwhile() -> None:
    async with rig() as r, r.another() as other:
        await r.chat.add(user("0"))
        r.store.script.extend([Fault.DONE, Fault.LOST])
        task = start(r.chat.add(user("x")))
        await until(lambda: len(r.store.commits) == 3)
        await other.conversation("chat").delete()
        assert await r.inner.sweep(r.clock.time() + 90_000) == 1
        await _settled(r)
        assert isinstance(await failure(task), OutcomeUnknownError)
        assert await log_of(r.chat) == []


async def test_a_deadline_during_settling_gives_a_key_and_the_retry_ends_stored_once() -> None:
    async with rig() as r:
        await r.chat.add(user("0"))
        gate = r.store.hold("commit")
        r.store.script.append(Fault.LATE)
        r.store.late_after = 10
        task = start(r.chat.add(user("x"), timeout=5))
        await gate.reached()
        r.clock.advance(6)
        key = retry_key_of(await failure(task))
        retry = start(r.chat.add(user("x"), idempotency_key=key))
        gate.open()
        await _settled(r)
        assert await retry == Receipt(2, 1, 1, True)
        await r.store.land()
        assert await log_of(r.chat) == ["0", "x"]


@pytest.mark.parametrize("lands", ["never", "before", "after"])
async def test_a_made_up_key_works_after_a_crash(lands: str) -> None:
    """The memory that got no answer is gone; the write lands never, before the retry, or behind it."""
    async with rig() as r:
        await r.chat.add(user("0"))
        r.store.script.extend([Fault.LATE] + [Fault.LOST] * 100)
        r.store.late_after = 1000
        task = start(r.chat.add(user("x")))
        await until(lambda: len(r.store.commits) == 3)
        report = await r.memory.drain(0)
        key = retry_key_of(await failure(task))
        assert report.keys == (key,)
        async with r.another() as other:
            chat = other.conversation("chat")
            if lands == "before":
                await r.store.land()
            receipt = await chat.add(user("x"), idempotency_key=key)
            if lands == "after":
                await r.store.land()
            assert receipt == Receipt(2, 1, 1, lands == "before")
            assert (await chat.add(user("x"), idempotency_key=key)).replayed
            assert await log_of(chat) == ["0", "x"]


async def _unknown_and_done(r: Rig, *messages: SystemMessage | UserMessage) -> str:
    """An add that was executed, of which its caller was told nothing; returns the key."""
    task, gate = await r.flying(r.chat.add(*messages))
    task.cancel()
    key = retry_key_of(await failure(task))
    gate.open()
    await until(lambda: not r.memory.stats().in_flight)
    return key


async def test_a_retry_with_a_made_up_key_and_other_content_is_an_error() -> None:
    async with rig() as r:
        key = await _unknown_and_done(r, user("x"))
        for wrong in (
            r.chat.add(user("y"), idempotency_key=key),
            r.chat.clear(idempotency_key=key),
            r.chat.delete(idempotency_key=key),
        ):
            assert isinstance(await failure(wrong), IdempotencyError)


async def test_a_retry_of_messages_of_which_not_all_were_stored_is_recognised() -> None:
    """The system message was in view already, and so is not in the record."""
    async with rig() as r:
        await r.chat.add(SystemMessage("rules"))
        key = await _unknown_and_done(r, SystemMessage("rules"), user("x"))
        assert (await r.chat.add(SystemMessage("rules"), user("x"), idempotency_key=key)).replayed
        assert await log_of(r.chat) == ["rules", "x"]


def _change(r: Rig, kind: str, key: str | None = None) -> Coroutine[Any, Any, Receipt]:
    changes: dict[str, Callable[[], Coroutine[Any, Any, Receipt]]] = {
        "clear": lambda: r.chat.clear(idempotency_key=key),
        "update": lambda: r.chat.update(lambda view: [], idempotency_key=key),
        "rewind": lambda: r.chat.rewind(0, idempotency_key=key),
        "delete": lambda: r.chat.delete(idempotency_key=key),
        "describe": lambda: r.chat.describe(title="t", idempotency_key=key),
    }
    return changes[kind]()


@pytest.mark.parametrize("kind", ["clear", "update", "rewind", "delete", "describe"])
async def test_made_up_keys_serve_every_change(kind: str) -> None:
    async with rig() as r:
        await r.chat.add(user("x"))
        task, gate = await r.flying(_change(r, kind))
        task.cancel()
        key = retry_key_of(await failure(task))
        gate.open()
        await until(lambda: not r.memory.stats().in_flight)
        await r.chat.add(user("y"))
        assert (await _change(r, kind, key)).replayed
        assert "y" in texts(await r.chat.get())
        if kind not in ("update", "delete"):
            assert isinstance(await failure(r.chat.add(user("z"), idempotency_key=key)), IdempotencyError)


async def test_a_failed_store_is_not_unknown() -> None:
    async with rig() as r:
        r.store.script.append(Fault.FAILED)
        assert outcome(await failure(r.chat.add(user("x")))).outcome == "not_executed"
        assert await log_of(r.chat) == []
