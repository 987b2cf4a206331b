"""`delete`, `describe`, `info`, `history`, listing and owners."""

from __future__ import annotations

import asyncio

import pytest

from diarist import BackendError, InvalidMessageError, MessageWindow, OwnerError, Receipt
from tests.support.actor import Rig, failure, log_of, outcome, queued, rig, texts, until, user
from tests.support.faulty import StoreDown


async def test_a_deleted_conversation_is_empty_not_listed_and_its_text_is_gone() -> None:
    async with rig() as r:
        await r.chat.add(user("secret"))
        assert await r.chat.delete() == Receipt(2, 1, 0)
        assert (await r.chat.get(), await log_of(r.chat), await r.chat.info()) == ((), [], None)
        assert not await r.memory.conversations()
        records = await r.inner.read(r.store.commits[0].key, 1, 10, limit=10)
        assert len(records) == 2
        assert not any(b"secret" in record.payload for record in records)


async def test_deleting_what_is_not_there_changes_nothing() -> None:
    async with rig() as r:
        assert await r.chat.delete() == Receipt(0, 0, 0)
        await r.chat.add(user("x"))
        await r.chat.delete()
        assert await r.chat.delete() == Receipt(2, 0, 0)
        assert len(r.store.commits) == 2


async def test_a_new_life_begins_at_position_zero_with_versions_that_go_on() -> None:
    async with rig() as r:
        await r.chat.add(user("old"))
        await r.chat.describe(title="old")
        await r.chat.delete()
        assert await r.chat.add(user("new")) == Receipt(4, 0, 1)
        info = await r.chat.info()
        assert info is not None
        assert (info.title, info.version) == (None, 4)
        assert await log_of(r.chat) == ["new"]


async def test_calls_queued_around_a_delete_keep_their_order() -> None:
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        tasks = await queued(r.chat.add(user("1")), r.chat.delete(), r.chat.add(user("2")), r.chat.add(user("3")))
        gate.open()
        await asyncio.gather(first, *tasks)
        assert await log_of(r.chat) == ["2", "3"]


async def test_a_delete_whose_erasure_fails_was_executed() -> None:
    async with rig() as r:
        await r.chat.add(user("secret"))
        r.store.fail("erase", StoreDown("gone"))
        error = await failure(r.chat.delete())
        assert isinstance(error, BackendError)
        assert outcome(error).outcome == "executed"
        assert texts(await r.chat.get()) == []
        await r.inner.sweep(r.clock.time())
        assert not any(
            b"secret" in item.payload for item in await r.inner.read(r.store.commits[0].key, 1, 9, limit=9)
        )


async def test_the_sweeper_removes_old_tombstones() -> None:
    async with rig() as r:
        await r.chat.add(user("x"))
        await r.chat.delete()
        r.clock.advance(86_500)
        await until(lambda: r.store.calls["sweep"] > 1)
        assert await r.inner.load(r.store.commits[0].key) is None


async def test_describe_sets_what_is_given_and_keeps_the_rest() -> None:
    async with rig() as r:
        await r.chat.add(user("x"))
        await r.chat.describe(title="t", metadata={"a": [1, {"b": None}]})
        await r.chat.describe(title="u")
        r.clock.advance(1000)
        info = await r.chat.info()
        assert info is not None
        assert (info.title, info.metadata, info.version) == ("u", {"a": [1, {"b": None}]}, 3)
        assert texts(await r.chat.get()) == ["x"]
        assert await r.chat.describe() == Receipt(3, 1, 0)
        assert await r.chat.describe(title="u") == Receipt(3, 1, 0)
        await r.chat.describe(metadata={})
        info = await r.chat.info()
        assert info is not None
        assert info.metadata == {}


@pytest.mark.parametrize("metadata", [{"x": float("nan")}, {"x": {1: 2}}, {"x": b""}, {"x": object()}])
async def test_a_card_that_cannot_be_stored_is_refused_with_its_path(metadata: dict[str, object]) -> None:
    async with rig() as r:
        with pytest.raises(InvalidMessageError, match=r"metadata\.x"):
            await r.chat.describe(metadata=metadata)
        assert await r.chat.info() is None


async def test_the_callers_metadata_is_copied() -> None:
    async with rig() as r:
        inner = [1]
        metadata = {"a": inner}
        await r.chat.describe(metadata=metadata)
        inner.append(2)
        metadata["b"] = inner
        info = await r.chat.info()
        assert info is not None
        assert info.metadata == {"a": [1]}


async def _long(r: Rig) -> None:
    """Twelve messages in records of different sizes, with entries without messages among them."""
    await r.chat.add(user("0"), user("1"), user("2"))
    await r.chat.clear()
    first, gate = await r.flying(r.chat.add(user("3")))
    tasks = await queued(
        r.chat.add(user("4"), user("5")), r.chat.describe(title="t"), r.chat.add(user("6")), r.chat.clear()
    )
    gate.open()
    await asyncio.gather(first, *tasks)
    await r.chat.describe(title="u")
    await r.chat.add(*(user(str(n)) for n in range(7, 12)))
    await r.chat.update(lambda view: view[::2])


@pytest.mark.parametrize("limit", range(1, 14))
async def test_history_pages_forwards(limit: int) -> None:
    async with rig() as r:
        await _long(r)
        seen: list[str] = []
        after: int | None = None
        while True:
            page = await r.chat.history(after=after, limit=limit)
            assert len(page) <= limit
            seen += texts(item.message for item in page)
            if page.next is None:
                break
            after = page.next
        assert seen == [str(n) for n in range(12)]


@pytest.mark.parametrize("limit", range(1, 14))
async def test_history_pages_backwards_and_items_stay_ascending(limit: int) -> None:
    async with rig() as r:
        await _long(r)
        seen: list[str] = []
        before: int | None = 1000
        while before is not None:
            page = await r.chat.history(before=before, limit=limit)
            positions = [item.position for item in page]
            assert positions == sorted(positions)
            seen = [*texts(item.message for item in page), *seen]
            before = page.next
        assert seen == [str(n) for n in range(12)]


async def test_history_knows_version_and_what_is_in_view() -> None:
    async with rig() as r:
        await _long(r)
        page = await r.chat.history()
        assert [item.version for item in page] == [1, 1, 1, 3, 4, 4, 6, 9, 9, 9, 9, 9]
        assert [item.position for item in page if item.in_view] == [7, 9, 11]
        assert [item.position for item in await r.chat.history(after=4, limit=3)] == [5, 6, 7]
        assert [item.position for item in await r.chat.history(before=4, limit=3)] == [1, 2, 3]
        assert await r.chat.history(after=11) == ()
        assert await r.chat.history(before=0) == ()


async def test_history_refuses_what_makes_no_sense() -> None:
    async with rig() as r:
        with pytest.raises(ValueError, match="not both"):
            await r.chat.history(after=1, before=2)
        with pytest.raises(ValueError, match="limit"):
            await r.chat.history(limit=0)


async def test_history_of_a_purged_log_goes_on() -> None:
    async with rig(window=MessageWindow(2)) as r:
        for n in range(6):
            await r.chat.add(user(str(n)))
        await r.inner.erase(r.store.commits[0].key, 2, 3)
        page = await r.chat.history(limit=2)
        assert [item.position for item in page] == [0, 3]
        assert [item.position for item in await r.chat.history(after=page.next, limit=9)] == [4, 5]
        assert [item.position for item in await r.chat.history(before=4, limit=9)] == [0, 3]


async def test_conversations_are_listed_in_pages() -> None:
    async with rig() as r:
        for n in range(7):
            await r.memory.add(f"c{n}", user("x"), namespace="n" if n % 2 else "")
        await r.memory.conversation("c0").delete()
        seen: list[str] = []
        after: str | None = None
        while True:
            page = await r.memory.conversations(after=after, limit=2)
            seen += [item.id for item in page]
            after = page.next
            if after is None:
                break
        assert sorted(seen) == ["c1", "c2", "c3", "c4", "c5", "c6"]
        assert [item.id for item in await r.memory.conversations(namespace="n")] == ["c1", "c3", "c5"]


async def test_a_namespace_is_deleted_as_a_whole_and_alone() -> None:
    async with rig() as r:
        for n in range(5):
            await r.memory.add(f"c{n}", user("x"), namespace="n")
        await r.memory.add("c0", user("x"))
        assert await r.memory.delete_namespace("n") == 5
        assert await r.memory.delete_namespace("n") == 0
        assert [item.namespace for item in await r.memory.conversations()] == [""]


async def test_an_owner_is_set_at_creation_and_held_to() -> None:
    async with rig() as r:
        mine = r.memory.conversation("chat", owner="me")
        theirs = r.memory.conversation("chat", owner="them")
        await mine.add(user("x"))
        calls = (
            theirs.get(),
            theirs.get(read="snapshot"),
            theirs.add(user("y")),
            theirs.clear(),
            theirs.history(),
            theirs.info(),
            theirs.update(lambda view: []),
            theirs.rewind(0),
            theirs.delete(),
            theirs.describe(title="t"),
        )
        for call in calls:
            assert isinstance(await failure(call), OwnerError)
        assert texts(await mine.get()) == texts(await r.chat.get()) == ["x"]
        await mine.delete()
        await theirs.add(user("y"))
        assert isinstance(await failure(mine.get()), OwnerError)
