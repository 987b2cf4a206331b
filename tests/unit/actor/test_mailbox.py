"""The mailbox: order, group commit, and what nobody may see before it is durable."""

from __future__ import annotations

import asyncio

from diarist import Receipt
from diarist.runtime.scheduler import MAX_ENTRIES
from tests.support.actor import log_of, queued, rig, start, texts, until, user
from tests.support.faulty import Fault


async def test_calls_run_in_the_order_of_their_submission() -> None:
    async with rig() as r:
        tasks = await queued(*(r.chat.add(user(str(n))) for n in range(20)))
        receipts = await asyncio.gather(*tasks)
        assert [receipt.version for receipt in receipts] == list(range(1, 21))
        assert await log_of(r.chat) == [str(n) for n in range(20)]


async def test_what_queues_while_a_commit_flies_is_one_record() -> None:
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(user("first")))
        tasks = await queued(*(r.chat.add(user(str(n))) for n in range(10)))
        gate.open()
        await asyncio.gather(first, *tasks)
        assert [len(commit.operations) for commit in r.store.commits] == [1, 10]
        assert r.memory.stats().commits == 2


async def test_conversations_that_become_ready_together_are_one_batch() -> None:
    async with rig() as r:
        _, gate = await r.flying(r.chat.add(user("first")))
        others = await queued(*(r.memory.add(f"c{n}", user("x")) for n in range(5)))
        await until(lambda: r.store.calls["load"] == 6)
        gate.open()
        await asyncio.gather(*others)
        assert r.memory.stats().batch_sizes == {1: 1, 5: 1}
        assert r.store.calls["commit"] == 2


async def test_success_is_told_only_after_the_commit() -> None:
    async with rig() as r:
        task, gate = await r.flying(r.chat.add(user("x")))
        waiting = await queued(r.chat.add(user("y")), r.chat.add(user("z")))
        assert not any(item.done() for item in (task, *waiting))
        gate.open()
        assert await task == Receipt(1, 0, 1)
        assert [receipt.first for receipt in await asyncio.gather(*waiting)] == [1, 2]


async def test_a_snapshot_never_shows_what_is_not_durable() -> None:
    async with rig() as r:
        await r.chat.add(user("stored"))
        task, gate = await r.flying(r.chat.add(user("flying")))
        await queued(r.chat.add(user("queued")))
        assert texts(await r.chat.get(read="snapshot")) == ["stored"]
        gate.open()
        await task
        assert texts(await r.chat.get(read="snapshot"))[:2] == ["stored", "flying"]


async def test_an_ordered_read_of_an_uncommitted_state_waits_for_its_commit() -> None:
    async with rig() as r:
        await r.chat.add(user("1"))
        task, gate = await r.flying(r.chat.add(user("2")))
        (read,) = await queued(r.chat.get())
        assert not read.done()
        gate.open()
        await task
        assert texts(await read) == ["1", "2"]


async def test_a_read_beside_changes_of_its_own_draft_waits_for_their_commit() -> None:
    async with rig() as r:
        await r.chat.add(user("1"))
        first, gate = await r.flying(r.chat.add(user("2")))
        second = r.store.hold("commit")
        add, read, last = await queued(r.chat.add(user("3")), r.chat.get(), r.chat.add(user("4")))
        gate.open()
        await second.reached()
        await first
        assert not read.done()
        second.open()
        await asyncio.gather(add, last)
        view = await read
        assert isinstance(view, tuple)
        assert texts(view) == ["1", "2", "3"]


async def test_a_read_of_a_failed_commit_never_shows_it() -> None:
    async with rig() as r:
        await r.chat.add(user("1"))
        r.store.script.append(Fault.FAILED)
        add, read = await queued(r.chat.add(user("never")), r.chat.get())
        assert not isinstance(await asyncio.gather(add, return_exceptions=True), Receipt)
        view = await read
        assert isinstance(view, tuple)
        assert texts(view) == ["1"]


async def test_one_hot_mailbox_takes_a_bounded_part_of_a_batch() -> None:
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(user("first")))
        tasks = await queued(*(r.chat.add(user(str(n))) for n in range(MAX_ENTRIES + 10)))
        gate.open()
        await asyncio.gather(first, *tasks)
        assert [len(commit.operations) for commit in r.store.commits] == [1, MAX_ENTRIES, 10]


async def test_records_are_split_at_what_the_store_takes() -> None:
    async with rig(capabilities={"max_record_bytes": 10_000}) as r:
        first, gate = await r.flying(r.chat.add(user("first")))
        tasks = await queued(*(r.chat.add(user(str(n) * 3000)) for n in range(6)))
        gate.open()
        await asyncio.gather(first, *tasks)
        assert all(len(commit.record.payload) <= 10_000 for commit in r.store.commits)
        assert 3 <= len(r.store.commits) <= 4
        assert await log_of(r.chat) == ["first", *(str(n) * 3000 for n in range(6))]


async def test_two_callers_of_a_cold_conversation_share_one_load() -> None:
    async with rig() as r:
        gate = r.store.hold("load")
        tasks = await queued(*(r.chat.add(user(str(n))) for n in range(5)))
        gate.open()
        await asyncio.gather(*tasks)
        assert r.store.calls["load"] == 1


async def test_nothing_is_written_when_nothing_is_added() -> None:
    async with rig() as r:
        assert await r.chat.add() == Receipt(0, 0, 0)
        await r.chat.add(user("x"))
        assert await r.chat.add() == Receipt(1, 1, 0)
        assert len(r.store.commits) == 1


async def test_a_task_started_for_a_caller_is_not_its_child() -> None:
    """A caller's task group ends while its add is being written: the commit goes on."""
    async with rig() as r:
        task, gate = await r.flying(r.chat.add(user("x")))
        task.cancel()
        await asyncio.wait([task])
        gate.open()
        await until(lambda: r.memory.stats().commits == 1)
        assert await log_of(r.chat) == ["x"]


async def test_an_eager_caller_gets_its_answer() -> None:
    async with rig() as r:
        task = start(r.chat.add(user("x")))
        assert (await task).version == 1
