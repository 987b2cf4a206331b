"""The end: refuse, finish, commit, fail the rest, close; everybody gets an answer and nothing is left."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import warnings

import pytest

from diarist import BackendError, ChatMemory, ClosedError, DrainReport, NotExecutedError, OutcomeUnknownError
from diarist.backends.memory import MemoryRepository
from tests.support.actor import Rig, failure, log_of, outcome, queued, rig, start, texts, until, user
from tests.support.faulty import Fault


def _others() -> set[asyncio.Task[object]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.done()}


async def _hurried(r: Rig, deadline: float = 5) -> DrainReport:
    """A drain whose deadline passes."""
    drain = start(r.memory.drain(deadline))
    for _ in range(20):
        await asyncio.sleep(0)
    r.clock.advance(deadline + 1)
    return await drain


async def test_a_drain_finishes_the_queues() -> None:
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        tasks = await queued(*(r.chat.add(user(str(n))) for n in range(1, 5)))
        drain = start(r.memory.drain())
        await asyncio.sleep(0)
        gate.open()
        report = await drain
        assert report.clean
        assert (report.completed, report.not_executed, report.unknown, report.keys) == (5, 0, 0, ())
        await asyncio.gather(first, *tasks)
        async with r.another() as other:
            assert await log_of(other.conversation("chat")) == [str(n) for n in range(5)]


async def test_new_work_is_refused_while_draining_and_afterwards() -> None:
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        drain = start(r.memory.drain())
        await asyncio.sleep(0)
        for call in (r.chat.add(user("x")), r.chat.get(), r.memory.conversations(), r.chat.history(), r.chat.info()):
            error = await failure(call)
            assert isinstance(error, ClosedError)
            assert "draining" in str(error)
        gate.open()
        await asyncio.gather(first, drain)
        error = await failure(r.chat.add(user("x")))
        assert isinstance(error, ClosedError)
        assert outcome(error).outcome == "not_executed"


async def test_at_the_deadline_the_rest_is_failed_and_reported() -> None:
    async with rig() as r:
        flying, gate = await r.flying(r.chat.add(user("0"), idempotency_key="k"))
        waiting = await queued(r.chat.add(user("1")), r.chat.add(user("2")), r.chat.get())
        report = await _hurried(r)
        assert (report.completed, report.not_executed, report.unknown, report.keys) == (0, 2, 1, ("k",))
        assert not report.clean
        assert isinstance(await failure(flying), OutcomeUnknownError)
        for task in waiting:
            assert isinstance(await failure(task), NotExecutedError)
        gate.open()


async def test_a_deadline_of_zero_waits_for_nothing() -> None:
    async with rig() as r:
        task, gate = await r.flying(r.chat.add(user("0")))
        report = await r.memory.drain(0)
        assert report.unknown == 1
        await failure(task)
        gate.open()


async def test_no_task_is_left_when_a_commit_hangs() -> None:
    async with rig() as r:
        task, gate = await r.flying(r.chat.add(user("0")))
        await _hurried(r)
        await failure(task)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not _others()
        assert r.store.calls["commit"] == 1
        gate.open()


async def test_no_task_is_left_when_an_outcome_stays_unknown() -> None:
    async with rig() as r:
        r.store.script.extend([Fault.LOST] * 50)
        task = start(r.chat.add(user("0")))
        await until(lambda: len(r.store.commits) == 2)
        await _hurried(r, 0.1)
        await failure(task)
        calls = r.store.calls.total()
        r.clock.advance(100)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not _others()
        assert r.store.calls.total() == calls


async def test_no_call_reaches_the_store_after_the_close() -> None:
    """What was already scheduled (a check, a flush, a pause before another try) ends with the memory."""
    async with rig() as r:
        await asyncio.gather(*(r.memory.add(name, user("x")) for name in "abc"))
        r.store.script.extend([Fault.CONFLICT] * 3)
        conflicting = start(r.memory.add("a", user("y")))
        await until(lambda: r.memory.stats().conflicts == 2)
        checks = [start(r.memory.get("b")), start(r.memory.add("new", user("x")))]
        await asyncio.sleep(0)
        await r.memory.drain(0)
        calls = r.store.calls.total()
        await asyncio.gather(conflicting, *checks, return_exceptions=True)
        r.clock.advance(100)
        for _ in range(20):
            await asyncio.sleep(0)
        assert r.store.calls.total() == calls
        assert not _others()


async def test_no_timer_is_left() -> None:
    async with rig() as r:
        await r.chat.add(user("x"))
        await r.memory.drain()
        assert r.clock.timers == 0


async def test_a_delete_whose_erasure_hangs_gets_an_answer() -> None:
    async with rig() as r:
        await r.chat.add(user("x"))
        gate = r.store.hold("erase")
        task = start(r.chat.delete())
        await gate.reached()
        await _hurried(r)
        error = await failure(task)
        assert isinstance(error, BackendError)
        assert outcome(error).outcome == "executed"
        gate.open()


async def test_a_drain_waits_for_an_erasure() -> None:
    async with rig() as r:
        await r.chat.add(user("x"))
        gate = r.store.hold("erase")
        task = start(r.chat.delete())
        await gate.reached()
        drain = start(r.memory.drain())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not drain.done()
        gate.open()
        assert (await drain).clean
        assert (await task).version == 2


async def test_a_second_drain_gets_the_report_of_the_first() -> None:
    async with rig() as r:
        task, gate = await r.flying(r.chat.add(user("0")))
        both = [start(r.memory.drain()), start(r.memory.drain(0))]
        await asyncio.sleep(0)
        gate.open()
        reports = await asyncio.gather(*both)
        await task
        assert reports[0] is reports[1]
        assert await r.memory.drain() is reports[0]


async def test_a_drain_whose_caller_is_cancelled_goes_on() -> None:
    async with rig() as r:
        task, gate = await r.flying(r.chat.add(user("0")))
        drain = start(r.memory.drain())
        await asyncio.sleep(0)
        drain.cancel()
        await asyncio.wait([drain])
        gate.open()
        assert (await r.memory.drain()).completed == 1
        await task


async def test_dropped_work_is_not_counted_as_completed() -> None:
    """A call that was cancelled in a flight that conflicted was never done."""
    async with rig() as r:
        await r.chat.add(user("0"))
        task, gate = await r.flying(r.chat.add(user("x")))
        r.store.script.append(Fault.CONFLICT)
        drain = start(r.memory.drain())
        await asyncio.sleep(0)
        task.cancel()
        await failure(task)
        gate.open()
        assert (await drain).completed == 0


async def test_a_memory_that_was_never_opened_can_be_drained() -> None:
    memory = ChatMemory(MemoryRepository())
    assert (await memory.drain()).clean
    assert isinstance(await failure(memory.get("x")), ClosedError)


async def test_a_borrowed_repository_is_not_closed_and_an_owned_one_is() -> None:
    async with rig() as r:
        await r.memory.drain()
        assert not r.store.closed
    async with ChatMemory.open("memory://") as memory:
        await memory.add("x", user("x"))
        assert texts(await memory.get("x")) == ["x"]


async def test_a_memory_is_entered_once() -> None:
    memory = ChatMemory(MemoryRepository())
    async with memory:
        with pytest.raises(RuntimeError, match="once"):
            await memory.__aenter__()
        await memory.add("x", user("x"))
    with pytest.raises(RuntimeError, match="once"):
        await memory.__aenter__()


async def test_an_unclosed_memory_warns() -> None:
    async def forget() -> None:
        memory = ChatMemory(MemoryRepository())
        await memory.__aenter__()
        await memory.add("x", user("x"))

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        await forget()
        gc.collect()
    assert ["never closed" in str(item.message) for item in seen if item.category is ResourceWarning] == [True]


async def test_a_closed_memory_does_not_warn() -> None:
    async with ChatMemory(MemoryRepository()) as memory:
        await memory.add("x", user("x"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del memory
        gc.collect()


def test_an_unclosed_memory_does_not_hold_up_the_interpreter() -> None:
    program = """
        import asyncio
        from diarist import ChatMemory, UserMessage
        async def main():
            memory = ChatMemory.open("memory://")
            await memory.__aenter__()
            await memory.add("x", UserMessage("x"))
        asyncio.run(main())
        print("end")
    """
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "end\n"
    assert "ResourceWarning" in done.stderr
