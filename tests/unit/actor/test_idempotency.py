"""Callers' keys: a repeat is recognised for as long as its entry lives."""

from __future__ import annotations

import asyncio

import pytest

from diarist import IdempotencyError, Receipt, SystemMessage, UserMessage
from diarist.runtime.scheduler import MAX_ENTRIES
from diarist.runtime.slot import KNOWN_KEYS
from tests.support.actor import Rig, failure, log_of, queued, rig, texts, user
from tests.support.faulty import Fault

ADDED = Receipt(1, 0, 1, True)


async def _added_with_key(r: Rig) -> None:
    assert await r.chat.add(user("x"), idempotency_key="k") == Receipt(1, 0, 1)


async def test_a_repeat_returns_the_first_receipt() -> None:
    async with rig() as r:
        await _added_with_key(r)
        await r.chat.add(user("y"))
        assert await r.chat.add(user("x"), idempotency_key="k") == ADDED
        assert await log_of(r.chat) == ["x", "y"]


async def test_a_repeat_is_recognised_after_eviction() -> None:
    async with rig() as r:
        await _added_with_key(r)
        r.clock.advance(1000)
        assert r.memory.stats().live == 0
        assert await r.chat.add(user("x"), idempotency_key="k") == ADDED


async def test_a_repeat_is_recognised_when_the_slot_has_forgotten_the_key() -> None:
    async with rig() as r:
        await _added_with_key(r)
        for n in range(KNOWN_KEYS + 1):
            await r.chat.add(user(str(n)), idempotency_key=str(n))
        assert await r.chat.add(user("x"), idempotency_key="k") == ADDED


async def test_a_repeat_is_recognised_after_a_restart_and_from_another_process() -> None:
    async with rig() as r:
        await _added_with_key(r)
        async with r.another() as other:
            assert await other.conversation("chat").add(user("x"), idempotency_key="k") == ADDED


async def test_a_repeat_is_recognised_after_a_clear() -> None:
    async with rig() as r:
        await _added_with_key(r)
        await r.chat.clear()
        assert await r.chat.add(user("x"), idempotency_key="k") == ADDED
        assert texts(await r.chat.get()) == []


async def test_a_repeat_is_recognised_while_the_tombstone_stands() -> None:
    async with rig() as r:
        await _added_with_key(r)
        await r.chat.delete()
        assert await r.chat.add(user("x"), idempotency_key="k") == ADDED
        assert texts(await r.chat.get()) == []


async def test_a_key_goes_with_its_tombstone() -> None:
    async with rig() as r:
        await _added_with_key(r)
        await r.chat.delete()
        r.clock.advance(90_000)
        assert await r.inner.sweep(r.clock.time()) == 1
        assert await r.chat.add(user("x"), idempotency_key="k") == Receipt(1, 0, 1)


async def test_a_live_slot_does_not_remember_a_key_longer_than_the_store() -> None:
    async with rig() as r:
        await _added_with_key(r)
        async with r.another() as other:
            await other.conversation("chat").delete()
            r.clock.now += 90_000
            assert await r.inner.sweep(r.clock.time()) == 1
            await other.add("chat", user("new life"))
        assert (await r.chat.add(user("x"), idempotency_key="k")).replayed is False
        assert await log_of(r.chat) == ["new life", "x"]


async def test_keys_are_scoped_to_their_conversation() -> None:
    async with rig() as r:
        await _added_with_key(r)
        assert not (await r.memory.add("other", user("x"), idempotency_key="k")).replayed
        assert not (await r.memory.add("chat", user("x"), namespace="n", idempotency_key="k")).replayed


async def test_the_same_key_twice_in_flight_runs_once() -> None:
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(user("x"), idempotency_key="k"))
        repeats = await queued(*(r.chat.add(user("x"), idempotency_key="k") for _ in range(3)))
        gate.open()
        assert await first == Receipt(1, 0, 1)
        assert await asyncio.gather(*repeats) == [ADDED] * 3
        assert await log_of(r.chat) == ["x"]


async def test_the_same_key_twice_in_one_record_runs_once() -> None:
    async with rig() as r:
        blocker, gate = await r.flying(r.chat.add(user("0")))
        both = await queued(*(r.chat.add(user("x"), idempotency_key="k") for _ in range(2)))
        gate.open()
        await asyncio.gather(blocker, *both)
        assert [task.result().replayed for task in both] == [False, True]
        assert await log_of(r.chat) == ["0", "x"]


async def test_the_same_key_twice_in_one_mailbox_runs_once_also_in_two_records() -> None:
    """Both were looked up together; the first is committed before the second runs."""
    async with rig() as r:
        await r.chat.add(user("0"))
        blocker, gate = await r.flying(r.chat.add(user("1")))
        first, rewind, second = await queued(
            r.chat.add(user("x"), idempotency_key="k"),
            r.chat.rewind(1),
            r.chat.add(user("x"), idempotency_key="k"),
        )
        gate.open()
        await asyncio.gather(blocker, first, rewind, second)
        assert [first.result().replayed, second.result().replayed] == [False, True]
        assert await log_of(r.chat) == ["0", "1", "x"]


async def test_a_repeat_beyond_the_bound_of_a_record_runs_once() -> None:
    async with rig() as r:
        await r.chat.add(user("0"))
        blocker, gate = await r.flying(r.chat.add(user("1")))
        tasks = await queued(
            *(r.chat.add(user(str(n % MAX_ENTRIES)), idempotency_key=str(n % MAX_ENTRIES)) for n in range(400))
        )
        gate.open()
        await asyncio.gather(blocker, *tasks)
        assert await log_of(r.chat) == ["0", "1", *map(str, range(MAX_ENTRIES))]


async def test_a_key_that_another_process_does_while_we_conflict_runs_once() -> None:
    """All keys of a mailbox are looked up again when a commit finds that others wrote."""
    async with rig() as r, r.another() as other:
        await r.chat.add(user("0"))
        blocker, gate = await r.flying(r.chat.add(user("1")))
        rest = await queued(
            r.chat.add(user("2"), idempotency_key="k2"),
            r.chat.rewind(1),
            r.chat.add(user("x"), idempotency_key="k"),
        )
        # The record of k2 will conflict; k was looked up before it, and is not part of it.
        second = r.store.hold("commit")
        gate.open()
        await second.reached()
        await other.conversation("chat").add(user("x"), idempotency_key="k")
        second.open()
        await asyncio.gather(blocker, *rest)
        assert (await log_of(r.chat)).count("x") == 1


async def test_a_key_that_another_process_does_while_we_confirm_runs_once() -> None:
    """A key that was looked up long ago is looked up again when the slot's state had to be loaded anew."""
    async with rig() as r, r.another() as other:
        await r.chat.add(user("0"))
        r.clock.now += 59
        gate = r.store.hold("operations")
        (add,) = await queued(r.chat.add(user("x"), idempotency_key="k", timeout=1000))
        await gate.reached()
        r.clock.now += 5
        after = r.store.hold("versions")
        gate.open()
        await after.reached()
        await other.conversation("chat").add(user("x"), idempotency_key="k")
        after.open()
        assert (await add).replayed
        assert await log_of(r.chat) == ["0", "x"]


async def test_other_content_under_the_same_key_is_an_error() -> None:
    async with rig() as r:
        await _added_with_key(r)
        for wrong in (
            r.chat.add(user("y"), idempotency_key="k"),
            r.chat.add(user("x"), user("x"), idempotency_key="k"),
            r.chat.clear(idempotency_key="k"),
            r.chat.rewind(0, idempotency_key="k"),
            r.chat.describe(title="t", idempotency_key="k"),
            r.chat.delete(idempotency_key="k"),
            r.chat.update(lambda view: view[:0], idempotency_key="k"),
        ):
            error = await failure(wrong)
            assert isinstance(error, IdempotencyError)
            assert error.idempotency_key == "k"
        assert texts(await r.chat.get()) == ["x"]


async def test_an_update_is_judged_by_its_key_alone() -> None:
    async with rig() as r:
        await r.chat.add(user("x"))
        first = await r.chat.update(lambda view: [], idempotency_key="k")
        again = await r.chat.update(lambda view: [user("other")], idempotency_key="k")
        assert again == Receipt(first.version, first.first, first.count, True)
        assert isinstance(await failure(r.chat.add(user("x"), idempotency_key="k")), IdempotencyError)


async def test_id_and_time_of_a_message_are_no_content() -> None:
    async with rig() as r:
        await r.chat.add(UserMessage("x", id="1"), idempotency_key="k")
        assert (await r.chat.add(UserMessage("x", id="2"), idempotency_key="k")).replayed


async def test_a_retry_of_a_success_with_an_expected_version_is_no_conflict() -> None:
    async with rig() as r:
        await r.chat.add(user("x"), idempotency_key="k", expected_version=0)
        assert await r.chat.add(user("x"), idempotency_key="k", expected_version=0) == ADDED
        r.clock.advance(1000)
        assert await r.chat.add(user("x"), idempotency_key="k", expected_version=0) == ADDED


async def test_a_key_of_a_failed_call_stays_free() -> None:
    async with rig() as r:
        r.store.script.append(Fault.FAILED)
        await failure(r.chat.add(user("x"), idempotency_key="k"))
        assert await r.chat.add(user("y"), idempotency_key="k") == Receipt(1, 0, 1)


@pytest.mark.parametrize("kind", ["clear", "update", "rewind", "delete", "describe"])
async def test_every_change_has_keys(kind: str) -> None:
    async with rig() as r:
        await r.chat.add(user("x"))
        calls = {
            "clear": lambda: r.chat.clear(idempotency_key="k"),
            "update": lambda: r.chat.update(lambda view: [], idempotency_key="k"),
            "rewind": lambda: r.chat.rewind(0, idempotency_key="k"),
            "delete": lambda: r.chat.delete(idempotency_key="k"),
            "describe": lambda: r.chat.describe(title="t", idempotency_key="k"),
        }
        first = await calls[kind]()
        assert first == Receipt(2, 1, 0)
        await r.chat.add(user("y"))
        r.clock.advance(1000)
        assert await calls[kind]() == Receipt(2, 1, 0, True)
        assert "y" in texts(await r.chat.get())


async def test_a_call_that_changed_nothing_changes_nothing_when_it_is_repeated() -> None:
    """A clear of an empty view was done: its repeat must not empty what came since."""
    async with rig() as r:
        await r.chat.add(user("x"))
        await r.chat.clear()
        first = await r.chat.clear(idempotency_key="k")
        assert first.count == 0
        await r.chat.add(user("y"))
        again = await r.chat.clear(idempotency_key="k")
        assert again == Receipt(first.version, first.first, 0, True)
        assert texts(await r.chat.get()) == ["y"]


async def test_a_system_message_that_was_in_view_already_is_not_stored_by_a_repeat() -> None:
    async with rig() as r:
        await r.chat.add(SystemMessage("A"), idempotency_key="1")
        assert (await r.chat.add(SystemMessage("A"), idempotency_key="2")).count == 0
        await r.chat.add(SystemMessage("B"), idempotency_key="3")
        assert (await r.chat.add(SystemMessage("A"), idempotency_key="2")).replayed
        assert texts(await r.chat.get()) == ["B"]


async def test_keys_of_a_mailbox_are_looked_up_in_one_call() -> None:
    async with rig() as r:
        await r.chat.add(user("0"))
        blocker, gate = await r.flying(r.chat.add(user("1")))
        tasks = await queued(*(r.chat.add(user(str(n)), idempotency_key=str(n)) for n in range(20)))
        gate.open()
        await asyncio.gather(blocker, *tasks)
        assert r.store.calls["operations"] == 1


async def test_a_new_conversation_needs_no_look_up() -> None:
    async with rig() as r:
        await _added_with_key(r)
        await r.chat.add(user("x"), idempotency_key="k")
        assert r.store.calls["operations"] == 0


async def test_a_key_at_the_head_is_not_held_up_by_keys_that_keep_coming() -> None:
    """A rewind at the head of a mailbox is prepared in the same round that looks up keys behind it."""
    async with rig() as r:
        await r.chat.add(user("0"))
        await r.chat.add(user("1"))
        rounds = 0
        gate = r.store.hold("operations")
        tasks = await queued(r.chat.add(user("first"), idempotency_key="first"), r.chat.rewind(1))
        while not tasks[1].done():
            rounds += 1
            assert rounds < 10, "the rewind waits for ever"
            following = r.store.hold("operations")
            tasks += await queued(r.chat.add(user(str(rounds)), idempotency_key=str(rounds)))
            gate.open()
            await _reached_or_done(following.reached(), tasks[1])
            gate = following
        gate.open()
        await asyncio.gather(*tasks)


async def _reached_or_done(reached: object, task: asyncio.Task[Receipt]) -> None:
    assert asyncio.iscoroutine(reached)
    waiting = asyncio.ensure_future(reached)
    await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
