"""Random coroutines, cancelled at random moments: behind `Interruptible` they do the same as behind a plain await."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from diarist.runtime.interruptible import Interruptible, Interruption

Step = tuple[str, Any]
Program = list[Step]
Event = tuple[int, str]
"""Rounds of the loop to let pass, and what to do then."""


def _programs(depth: int = 2) -> st.SearchStrategy[Program]:
    leaf = st.sampled_from(
        [("yield", None), ("ready", None), ("wait", None), ("fail_wait", None), ("raise", None), ("note", None)]
    )
    if depth == 0:
        return st.lists(leaf, max_size=3)
    inner = _programs(depth - 1)
    node = st.one_of(
        leaf,
        st.tuples(st.sampled_from(["finally", "swallow", "child", "shield", "group", "timeout", "gather"]), inner),
    )
    return st.lists(node, min_size=1, max_size=4)


@dataclass
class World:
    """What a program may wait for, and what it did: its own steps, in order."""

    trace: list[str] = field(default_factory=list[str])
    futures: list[asyncio.Future[int]] = field(default_factory=list["asyncio.Future[int]"])

    async def run(self, program: Program, name: str = "") -> int:
        for place, (kind, inner) in enumerate(program):
            here = f"{name}{place}"
            self.trace.append(here)
            await self._step(kind, inner, here)
        return len(program)

    async def _step(self, kind: str, inner: Program, here: str) -> None:
        loop = asyncio.get_running_loop()
        if kind == "yield":
            await asyncio.sleep(0)
        elif kind == "ready":
            future: asyncio.Future[int] = loop.create_future()
            future.set_result(1)
            await future
        elif kind in ("wait", "fail_wait"):
            future = loop.create_future()
            self.futures.append(future)
            if kind == "fail_wait":
                loop.call_soon(_fail, future)
            await future
        elif kind == "raise":
            raise ValueError(here)
        elif kind == "finally":
            try:
                await self.run(inner, here + ".")
            finally:
                self.trace.append(here + " finally")
                await asyncio.sleep(0)
                self.trace.append(here + " cleaned")
        elif kind == "swallow":
            try:
                await self.run(inner, here + ".")
            except asyncio.CancelledError as error:
                self.trace.append(f"{here} swallowed {error.args}")
        elif kind == "child":
            await asyncio.create_task(self.run(inner, here + "."))
        elif kind == "shield":
            child = asyncio.ensure_future(self.run(inner, here + "."))
            child.add_done_callback(_seen)
            try:
                await asyncio.shield(child)
            finally:
                child.cancel()
                await asyncio.wait([child])
        elif kind == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(self.run(inner, here + "."))
                await asyncio.sleep(0)
        elif kind == "timeout":
            async with asyncio.timeout(1000):
                await self.run(inner, here + ".")
        elif kind == "gather":
            await asyncio.gather(self.run(inner, here + "."), asyncio.sleep(0))


def _seen(task: asyncio.Task[Any]) -> None:
    """A child that fails when nobody waits for it any more would complain whenever it is collected."""
    if not task.cancelled():
        task.exception()


def _fail(future: asyncio.Future[int]) -> None:
    if not future.done():
        future.set_exception(KeyError("wait"))


async def _observe(
    program: Program, events: list[Event], interruptible: bool
) -> tuple[str, list[str], int, list[Any]]:
    """Run the program in a task, and do what `events` say."""
    world = World()
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context["message"]))

    async def body() -> int:
        work: Awaitable[int] = world.run(program)
        result = await (Interruptible(work, Interruption()) if interruptible else work)
        world.trace.append("after")
        await asyncio.sleep(0)
        return result

    task = asyncio.create_task(body())
    for count, (rounds, event) in enumerate(events):
        for _ in range(rounds):
            await asyncio.sleep(0)
        if event == "cancel":
            task.cancel(f"cancel {count}")
            continue
        waiting = [future for future in world.futures if not future.done()]
        if waiting:
            waiting[0].set_result(1)
            if event == "resolve and cancel":
                task.cancel(f"cancel {count}")
    while not task.done():
        for _ in range(40):
            await asyncio.sleep(0)
        for future in world.futures:
            if not future.done():
                future.set_result(1)
    return await _outcome(task), world.trace, task.cancelling(), complaints


async def _outcome(task: asyncio.Task[int]) -> str:
    try:
        return f"result {await task}"
    except asyncio.CancelledError as error:
        return f"cancelled {error.args}"
    except BaseExceptionGroup as error:
        return f"group {[repr(item) for item in error.exceptions]}"
    except Exception as error:
        return repr(error)


EVENTS = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 3, 4, 5, 40]), st.sampled_from(["cancel", "resolve", "resolve and cancel"])),
    max_size=6,
)


@given(_programs(), EVENTS)
@settings(max_examples=400, deadline=None)
def test_task_cancellation_is_the_same_as_with_a_plain_await(program: Program, events: list[Event]) -> None:
    plain = asyncio.run(_observe(program, events, False))
    wrapped = asyncio.run(_observe(program, events, True))
    assert wrapped == plain
