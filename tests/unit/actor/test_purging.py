"""Retention and purging: text out of view goes, what any view needs stays, and nothing comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from diarist import (
    BackendError,
    ChatMemory,
    Limits,
    MessageWindow,
    NotFoundError,
    Retention,
    SystemMessage,
    UserMessage,
)
from diarist.backends.memory import MemoryRepository
from diarist.runtime.ids import Key
from diarist.runtime.log import decode_record
from diarist.runtime.purging import PURGE_SECONDS
from diarist.runtime.state import decode_head
from diarist.runtime.upkeep import Purged
from tests.support.actor import Rig, failure, log_of, rig, start, texts, until, user

KEY = Key("", "chat")
NONE = Retention(keep_out_of_view=0)


async def raw(store: MemoryRepository, key: Key = KEY) -> list[str]:
    """All texts that the store still has, read past the runtime."""
    records = [
        decode_record(item.first, item.payload, item.at) for item in await store.read(key, 1, 2**62, limit=9999)
    ]
    return [message.text for record in records for message in record.messages]


@asynccontextmanager
async def filled(count: int, view: int, retention: Retention | None = None) -> AsyncGenerator[Rig]:
    """A chat of `count` messages, an entry each, of which the last `view` are in view."""
    async with rig(window=MessageWindow(view, keep_last_turn=False), retention=retention) as r:
        for number in range(count):
            await r.chat.add(user(f"{number}"))
        yield r


async def test_by_default_everything_is_kept() -> None:
    async with filled(20, 3) as r:
        assert await r.memory.purge() == 0
        assert await r.memory.purge("chat") == 0
        await _passes(r, 3 * PURGE_SECONDS)
        assert len(await raw(r.inner)) == 20


@pytest.mark.parametrize(("keep", "left"), [(0, 3), (4, 7), (17, 20), (100, 20)])
async def test_the_latest_out_of_view_are_kept(keep: int, left: int) -> None:
    async with filled(20, 3) as r:
        before = await r.chat.get()
        assert await r.memory.purge("chat", retention=Retention(keep_out_of_view=keep)) == 20 - left
        assert await raw(r.inner) == [f"{number}" for number in range(20 - left, 20)]
        assert texts(await r.chat.get()) == texts(before)
        assert await log_of(r.chat) == await raw(r.inner)
        assert await r.memory.purge("chat", retention=Retention(keep_out_of_view=keep)) == 0


async def test_what_is_older_goes() -> None:
    async with rig(window=MessageWindow(2, keep_last_turn=False)) as r:
        for number in range(10):
            await r.chat.add(user(f"{number}"))
            r.clock.advance(10)
        assert await r.memory.purge("chat", retention=Retention(max_age=55)) == 5
        assert await raw(r.inner) == [f"{number}" for number in range(5, 10)]
        # In view it stays, however old.
        r.clock.advance(1e4)
        assert await r.memory.purge("chat", retention=Retention(max_age=55)) == 3
        assert await raw(r.inner) == ["8", "9"]


async def test_with_both_bounds_what_exceeds_one_goes() -> None:
    async with rig(window=MessageWindow(1, keep_last_turn=False)) as r:
        for number in range(10):
            await r.chat.add(user(f"{number}"))
            r.clock.advance(10)
        await r.memory.purge("chat", retention=Retention(max_age=75, keep_out_of_view=8))
        assert await raw(r.inner) == [f"{number}" for number in range(3, 10)]
        await r.memory.purge("chat", retention=Retention(max_age=1000, keep_out_of_view=2))
        assert await raw(r.inner) == ["7", "8", "9"]


async def test_an_entry_that_is_partly_in_view_stays_whole() -> None:
    async with rig(window=MessageWindow(2, keep_last_turn=False)) as r:
        await r.chat.add(user("old"))
        await r.chat.add(user("1"), user("2"), user("3"))
        assert texts(await r.chat.get()) == ["2", "3"]
        assert await r.memory.purge("chat", retention=NONE) == 1
        assert await raw(r.inner) == ["1", "2", "3"]


async def test_versions_positions_and_keys_stay() -> None:
    async with filled(10, 2) as r:
        first = await r.chat.add(user("keyed"), idempotency_key="k")
        await r.chat.add(user("a"), user("b"))
        version = (await r.chat.get()).version
        assert await r.memory.purge("chat", retention=NONE) == 11
        assert (await r.chat.get()).version == version + 1
        again = await r.chat.add(user("keyed"), idempotency_key="k")
        assert (again.version, again.first, again.replayed) == (first.version, first.first, True)
        receipt = await r.chat.add(user("c"), expected_version=version)
        assert (receipt.version, receipt.first) == (version + 2, 13)
        items = await r.chat.history(limit=100)
        assert [(item.version, item.position, item.message.text) for item in items] == [
            (version, 11, "a"),
            (version, 12, "b"),
            (version + 2, 13, "c"),
        ]


async def test_rewind_into_what_is_gone_is_not_found() -> None:
    async with filled(10, 2) as r:
        [wanted] = [item.message.id for item in await r.chat.history(limit=1, after=2)]
        await r.memory.purge("chat", retention=Retention(keep_out_of_view=3))
        for version in (3, 5, 6):
            with pytest.raises(NotFoundError):
                await r.chat.rewind(version=version)
        with pytest.raises(NotFoundError):
            await r.chat.rewind(before=wanted)
        with pytest.raises(NotFoundError):
            await r.chat.rewind(after=wanted)
        await r.chat.rewind(version=7)
        assert texts(await r.chat.get()) == ["5", "6"]
        await r.chat.rewind(version=0)
        assert texts(await r.chat.get()) == []


async def test_what_was_in_view_at_the_purge_can_be_rewound_to_later() -> None:
    """The old system message too, although all around it is gone."""
    async with rig(window=MessageWindow(3, keep_last_turn=False)) as r:
        await r.chat.add(SystemMessage("be kind"))
        for number in range(8):
            await r.chat.add(user(f"{number}"))
        shown = texts(await r.chat.get())
        assert shown == ["be kind", "6", "7"]
        version = (await r.chat.get()).version
        assert await r.memory.purge("chat", retention=NONE) == 6
        await r.chat.clear()
        await r.chat.rewind(version=version)
        assert texts(await r.chat.get()) == shown
        # Without a purge between the two, nothing that was kept is lost; with one it is.
        await r.chat.clear()
        assert await r.memory.purge("chat", retention=NONE) == 3
        with pytest.raises(NotFoundError):
            await r.chat.rewind(version=version)
        assert await raw(r.inner) == []


async def test_what_was_kept_for_the_view_goes_when_it_leaves_the_view() -> None:
    async with rig(window=MessageWindow(3, keep_last_turn=False)) as r:
        await r.chat.add(SystemMessage("be kind"))
        for number in range(8):
            await r.chat.add(user(f"{number}"))
        await r.memory.purge("chat", retention=NONE)
        await r.chat.add(SystemMessage("be short"))
        assert await r.memory.purge("chat", retention=Retention(keep_out_of_view=1)) == 1
        assert await raw(r.inner) == ["6", "7", "be short"]


async def test_a_rewind_that_read_before_the_purge_is_refused_after_it() -> None:
    """It has the old records in hand, not erased yet; then another process declares them gone."""
    async with filled(10, 2) as r, r.another() as other:
        gate = r.store.hold("read")
        rewinding = start(r.chat.rewind(version=4))
        await gate.reached()
        gate.open()
        committing = r.store.hold("commit")
        await committing.reached()
        await other.purge("chat", retention=NONE)
        committing.open()
        error = await failure(rewinding)
        assert isinstance(error, NotFoundError)
        assert texts(await r.chat.get()) == ["8", "9"]
        assert await raw(r.inner) == ["8", "9"]


async def test_a_purge_that_looked_before_a_rewind_keeps_what_came_back() -> None:
    """The declaration is judged anew on the state that has the rewind."""
    async with filled(10, 2) as r, r.another() as other:
        gate = r.store.hold("commit")
        purging = start(r.memory.purge("chat", retention=NONE))
        await gate.reached()
        await other.conversation("chat").rewind(version=4)
        gate.open()
        assert await purging == 6
        assert texts(await r.chat.get()) == ["2", "3"]
        assert sorted(await raw(r.inner)) == ["2", "3", "8", "9"]


async def test_between_declaring_and_erasing_nothing_comes_back() -> None:
    async with filled(10, 2) as r, r.another() as other:
        gate = r.store.hold("erase")
        purging = start(r.memory.purge("chat", retention=NONE))
        await gate.reached()
        assert len(await raw(r.inner)) == 10
        for memory in (r.memory, other):
            with pytest.raises(NotFoundError, match="purged"):
                await memory.conversation("chat").rewind(version=4)
        gate.open()
        assert await purging == 8


async def test_writers_and_readers_do_not_wait_for_a_purge() -> None:
    async with filled(10, 2) as r:
        gate = r.store.hold("erase")
        purging = start(r.memory.purge("chat", retention=NONE))
        await gate.reached()
        for number in range(10, 30):
            await r.chat.add(user(f"{number}"))
        assert texts(await r.chat.get()) == ["28", "29"]
        await r.chat.clear()
        gate.open()
        assert await purging == 8


async def test_what_a_crash_left_is_erased_by_the_next_purge() -> None:
    """Also by another process, and also when it purges by a retention that would keep it."""
    async with filled(10, 2) as r, r.another() as other:
        gate = r.store.hold("erase")
        purging = start(r.memory.purge("chat", retention=NONE))
        await gate.reached()
        purging.cancel()
        await asyncio.wait([purging])
        assert len(await raw(r.inner)) == 10
        assert await other.purge() == 8
        assert await raw(r.inner) == ["8", "9"]


async def test_two_that_purge_at_once_are_one_purge() -> None:
    async with filled(30, 2) as r, r.another() as other:
        counts = await asyncio.gather(
            r.memory.purge("chat", retention=NONE),
            other.purge("chat", retention=Retention(keep_out_of_view=9)),
            other.purge("chat", retention=NONE),
        )
        assert sum(counts) == 28
        assert await raw(r.inner) == ["28", "29"]
        assert texts(await other.conversation("chat").get()) == ["28", "29"]


async def test_a_conversation_made_anew_is_not_touched_by_the_purge_of_the_one_before() -> None:
    async with filled(10, 2) as r, r.another() as other:
        gate = r.store.hold("versions")
        purging = start(r.memory.purge("chat", retention=NONE))
        await gate.reached()
        gate.open()
        gate = r.store.hold("versions")
        await gate.reached()
        await other.conversation("chat").delete()
        await r.inner.sweep(r.clock.time() + 1e6)
        for number in range(5):
            await other.conversation("chat").add(user(f"new {number}"))
        await other.conversation("chat").clear()
        gate.open()
        assert await purging == 0
        assert await raw(r.inner) == [f"new {number}" for number in range(5)]


async def test_a_running_turn_is_not_disturbed() -> None:
    async with filled(10, 2) as r:
        async with r.chat.turn(user("q"), on_conflict="raise") as turn:
            assert await r.memory.purge("chat", retention=NONE) == 8
            await turn.add({"role": "assistant", "content": "a"})
        assert not turn.overtaken
        assert texts(await r.chat.get()) == ["q", "a"]


async def test_a_turn_whose_answer_is_gone_is_still_known_as_done() -> None:
    async with filled(1, 2) as r:
        async with r.chat.turn(user("q"), idempotency_key="k") as turn:
            await turn.add({"role": "assistant", "content": "a"})
        await r.chat.clear()
        await r.memory.purge("chat", retention=NONE)
        async with r.chat.turn(user("q"), idempotency_key="k") as turn:
            assert turn.replayed
            with pytest.raises(NotFoundError):
                _ = turn.answer


async def test_purging_all_goes_through_all_conversations_or_those_of_a_namespace() -> None:
    async with rig(window=MessageWindow(1, keep_last_turn=False)) as r:
        keys = [Key(namespace, f"c{number}") for namespace in ("", "n") for number in range(130)]
        for key in keys:
            chat = r.memory.conversation(key.id, namespace=key.namespace)
            await chat.add(user("old"))
            await chat.add(user("new"))
        assert await r.memory.purge(namespace="n", retention=NONE) == 130
        assert await r.memory.purge(namespace="", retention=NONE) == 130
        assert await r.memory.purge(retention=NONE) == 0
        assert {text for key in keys for text in await raw(r.inner, key)} == {"new"}


async def test_one_that_fails_does_not_keep_the_others_from_their_turn() -> None:
    async with rig(window=MessageWindow(1, keep_last_turn=False)) as r:
        for name in "abc":
            for text in ("old", "new"):
                await r.memory.add(name, user(text))
        r.store.fail("erase", BackendError("the disk is gone", outcome="not_executed"))
        with pytest.raises(BackendError, match="the disk is gone"):
            await r.memory.purge(retention=NONE)
        assert [len(await raw(r.inner, Key("", name))) for name in "abc"] == [2, 1, 1]
        assert await r.memory.purge(retention=NONE) == 1


async def test_in_the_background_a_round_goes_over_all_now_and_then() -> None:
    async with filled(10, 2, Retention(keep_out_of_view=1)) as r:
        await _passes(r, PURGE_SECONDS)
        await until(lambda: not r.memory.stats().in_flight)
        await until_raw(r, ["7", "8", "9"])
        version = (await r.chat.get()).version
        await r.chat.add(user("10"))
        await r.chat.add(user("11"))
        assert len(await raw(r.inner)) == 5
        await _passes(r, PURGE_SECONDS)
        await until_raw(r, ["9", "10", "11"])
        assert (await r.chat.get()).version == version + 3
        assert r.memory.stats().failures == 0


async def test_a_round_asks_the_log_only_where_something_can_be_due() -> None:
    """The listing tells, or what the round before found; nothing is loaded for it again and again."""
    async with filled(10, 2, Retention(keep_out_of_view=1, max_age=1e5)) as r:
        await _passes(r, PURGE_SECONDS)
        await until_raw(r, ["7", "8", "9"])
        reads = r.store.calls["read"]
        for _ in range(3):
            await _passes(r, PURGE_SECONDS)
        assert r.store.calls["read"] == reads
        await _passes(r, 1e5)
        await until_raw(r, ["8", "9"])


async def test_a_round_that_fails_is_followed_by_the_next() -> None:
    async with filled(10, 2, NONE) as r:
        r.store.fail("conversations", BackendError("gone", outcome="not_executed"))
        await _passes(r, PURGE_SECONDS)
        assert len(await raw(r.inner)) == 10
        await _passes(r, PURGE_SECONDS)
        await until_raw(r, ["8", "9"])


async def test_a_memory_can_be_closed_in_the_middle_of_a_round() -> None:
    async with filled(10, 2, NONE) as r:
        gate = r.store.hold("erase")
        await _passes(r, PURGE_SECONDS)
        await gate.reached()
        assert (await r.memory.drain(1)).clean
        gate.open()
        async with ChatMemory(r.inner) as again:
            assert await again.purge() == 8


async def _passes(r: Rig, seconds: float) -> None:
    """Time passes as the housekeeping sees it."""
    for _ in range(20):
        r.clock.advance(seconds / 20)
        for _ in range(50):
            await asyncio.sleep(0)


async def until_raw(r: Rig, expected: list[str]) -> None:
    for _ in range(1000):
        if await raw(r.inner) == expected:
            return
        await asyncio.sleep(0)
    assert await raw(r.inner) == expected


async def test_nothing_is_left_of_what_was_erased_in_many_steps() -> None:
    """More records than one erasure takes."""
    async with rig(Limits(), window=MessageWindow(1, keep_last_turn=False)) as r:
        for number in range(700):
            await r.chat.add(UserMessage(f"{number}"))
        assert await r.memory.purge("chat", retention=Retention(keep_out_of_view=10)) == 689
        assert r.store.calls["erase"] == 3
        assert (await r.chat.get()).version == 701
        await r.chat.add(UserMessage("700"))
        assert await r.memory.purge("chat", retention=Retention(keep_out_of_view=10)) == 1
        # What the first one had finished is not gone through again.
        snapshot = await r.inner.load(KEY)
        assert snapshot is not None
        assert decode_head(snapshot.head).facts.purged == Purged(690, 689)
