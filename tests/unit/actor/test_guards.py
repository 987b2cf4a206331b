"""Guards: the wrong loop, thread or process, and the wrong time, are typed errors at once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from diarist import ChatMemory, ClosedError, DiaristError, Message, ReentrancyError, WrongLoopError
from diarist.backends.memory import MemoryRepository
from tests.support.actor import failure, outcome, rig, texts, user
from tests.support.faulty import FaultyRepository


def _elsewhere(work: Coroutine[Any, Any, Any]) -> BaseException | None:
    """Run work on a loop of its own in another thread; its error."""
    found: list[BaseException | None] = []

    def main() -> None:
        try:
            asyncio.run(work)
            found.append(None)
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=main)
    thread.start()
    thread.join()
    return found[0]


async def test_another_thread_is_a_typed_error() -> None:
    async with rig() as r:
        for call in (r.chat.add(user("x")), r.chat.get(), r.chat.clear(), r.chat.history(), r.memory.drain()):
            error = _elsewhere(call)
            assert isinstance(error, WrongLoopError)
            assert outcome(error).outcome == "not_executed"
        assert texts(await r.chat.get()) == []


def test_another_loop_is_a_typed_error() -> None:
    memory = ChatMemory(MemoryRepository())
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    first.run_until_complete(memory.__aenter__())
    with pytest.raises(WrongLoopError):
        second.run_until_complete(memory.get("x"))
    first.run_until_complete(memory.drain())
    first.close()
    second.close()


async def test_use_before_open_is_a_typed_error() -> None:
    memory = ChatMemory(MemoryRepository())
    for call in (memory.get("x"), memory.add("x", user("x")), memory.conversations(), memory.delete_namespace("n")):
        error = await failure(call)
        assert isinstance(error, ClosedError)
        assert "not open" in str(error)


async def test_use_while_the_store_is_being_prepared_is_use_before_open() -> None:
    store = FaultyRepository(MemoryRepository())
    gate = store.hold("prepare")
    memory = ChatMemory(store)
    opening = asyncio.ensure_future(memory.__aenter__())
    await gate.reached()
    assert isinstance(await failure(memory.get("x")), ClosedError)
    gate.open()
    await opening
    await memory.get("x")
    await memory.drain()


async def test_a_store_that_cannot_be_prepared_closes_the_memory() -> None:
    store = FaultyRepository(MemoryRepository())
    store.fail("prepare", OSError("no such disk"))
    memory = ChatMemory(store)
    with pytest.raises(OSError, match="no such disk"):
        await memory.__aenter__()
    assert isinstance(await failure(memory.get("x")), ClosedError)


async def test_an_update_that_calls_its_own_conversation_is_an_error_at_once() -> None:
    async with rig() as r:
        tries: list[BaseException] = []

        def function(view: list[Message] | Any) -> list[Message]:
            calls = (
                lambda: r.chat.get(),
                lambda: r.chat.add(user("x")),
                lambda: r.chat.update(lambda inner: inner),
                lambda: r.memory.clear("chat"),
                lambda: r.chat.delete(),
                lambda: r.chat.rewind(0),
                lambda: r.chat.describe(title="t"),
            )
            for call in calls:
                try:
                    call().close()
                except DiaristError as error:
                    tries.append(error)
            return [*view, user("done")]

        await r.chat.update(function)
        assert len(tries) == 7
        assert all(isinstance(error, ReentrancyError) for error in tries)
        assert texts(await r.chat.get()) == ["done"]


async def test_an_update_that_generates_its_result_is_guarded_too() -> None:
    async with rig() as r:

        def function(view: Any) -> Any:
            yield from view
            r.chat.add(user("x")).close()

        assert isinstance(await failure(r.chat.update(function)), ReentrancyError)


async def test_an_update_may_look_at_another_conversation_s_handle() -> None:
    async with rig() as r:
        await r.chat.update(lambda view: [user(r.memory.conversation("other").id)])
        assert texts(await r.chat.get()) == ["other"]


async def test_an_async_update_function_is_refused() -> None:
    async with rig() as r:

        async def function(view: Any) -> Any:
            return view

        error = await failure(r.chat.update(function))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        assert isinstance(error, DiaristError)
        assert outcome(error).outcome == "not_executed"


FORKED = """
    import asyncio, os, sys
    from diarist import ChatMemory, ForkedError, UserMessage

    memory = ChatMemory.open("memory://")
    loop = asyncio.new_event_loop()

    def child(work):
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        try:
            work()
        except ForkedError:
            os._exit(3)
        except BaseException as error:
            print(type(error), error, file=sys.stderr)
            os._exit(4)
        os._exit(0)

    def call_on_the_same_loop():
        loop.run_until_complete(memory.add("x", UserMessage("x")))

    def call_on_a_new_loop():
        asyncio.run(memory.add("x", UserMessage("x")))

    async def a_memory_of_its_own():
        async with ChatMemory.open("memory://") as own:
            await own.add("x", UserMessage("x"))

    async def the_memory_that_nobody_opened(unopened):
        async with unopened:
            await unopened.add("x", UserMessage("x"))
            print((await unopened.get("x"))[0].id, flush=True)

    unopened = ChatMemory.open("memory://")
    print(child(lambda: asyncio.run(the_memory_that_nobody_opened(unopened))), flush=True)
    print(child(lambda: asyncio.run(the_memory_that_nobody_opened(unopened))), flush=True)
    loop.run_until_complete(memory.__aenter__())
    print(child(call_on_the_same_loop), flush=True)
    print(child(call_on_a_new_loop), flush=True)
    print(child(lambda: asyncio.run(a_memory_of_its_own())), flush=True)
    loop.run_until_complete(memory.add("x", UserMessage("parent")))
    loop.run_until_complete(memory.drain())
    loop.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_is_told_and_one_that_opens_its_own_memory_is_fine() -> None:
    """Also a memory that was made before the fork and is opened first in the child, as preloading servers do; two
    such children give different ids."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORKED)], capture_output=True, text=True, timeout=60, check=False
    )
    lines = done.stdout.split()
    assert [line for line in lines if len(line) < 3] == ["0", "0", "3", "3", "0"], done.stderr
    ids = [line for line in lines if len(line) > 3]
    assert len(set(ids)) == 2
