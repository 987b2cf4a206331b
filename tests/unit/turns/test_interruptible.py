"""`Interruptible`: like a plain await, except that it can be ended from outside."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any

import anyio
import pytest

from diarist.runtime.interruptible import Interruptible, Interruption
from tests.support.turns import forever, settle


class Stopped(Exception):
    """What an interruption raises here."""


class Run:
    """A task that awaits something interruptible, with what happened to it."""

    def __init__(self, work: Awaitable[Any]) -> None:
        self.interruption = Interruption()

        async def wait() -> Any:
            return await Interruptible(work, self.interruption)

        self.task = asyncio.create_task(wait())

    async def interrupt(self) -> None:
        """Interrupt it as soon as it waits; it must end with the interruption's error, its task uncancelled."""
        await settle(5)
        assert not self.task.done()
        self.interruption.fire(Stopped())
        await self.ended()

    async def ended(self) -> None:
        for _ in range(50):
            if self.task.done():
                break
            await asyncio.sleep(0)
        assert self.task.done(), "the interruption did not get through"
        assert isinstance(self.task.exception(), Stopped)
        assert self.task.cancelling() == 0


async def _event() -> None:
    await asyncio.Event().wait()


async def _queue() -> None:
    await asyncio.Queue[int]().get()


async def _child() -> None:
    await asyncio.create_task(forever())


async def _spin() -> None:
    while True:  # noqa: ASYNC110  # what is under test: never a future, only the next round of the loop
        await asyncio.sleep(0)


async def _gather() -> None:
    await asyncio.gather(forever(), _event())


async def _task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(forever())
        group.create_task(_spin())


async def _anyio_group() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_event)
        await anyio.sleep_forever()


async def _anyio_scope() -> None:
    with anyio.move_on_after(1000):
        await anyio.sleep_forever()


async def _shield() -> None:
    inner = asyncio.get_running_loop().create_future()
    try:
        await asyncio.shield(inner)
    finally:
        inner.cancel()


async def _time_out() -> None:
    async with asyncio.timeout(1000):
        await forever()


async def _wait_for() -> None:
    await asyncio.wait_for(forever(), 1000)


async def _condition() -> None:
    condition = asyncio.Condition()
    async with condition:
        await condition.wait()


WAITS = (
    forever,
    _event,
    _queue,
    _child,
    _spin,
    _gather,
    _task_group,
    _anyio_group,
    _anyio_scope,
    _shield,
    _time_out,
    _wait_for,
    _condition,
)


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait.__name__)
async def test_an_interruption_gets_through_whatever_is_awaited(wait: Callable[[], Awaitable[None]]) -> None:
    await Run(wait()).interrupt()


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait.__name__)
async def test_an_interruption_gets_through_to_a_generator(wait: Callable[[], Awaitable[None]]) -> None:
    left: list[str] = []

    async def model() -> AsyncIterator[int]:
        try:
            await wait()
            yield 1
        finally:
            await asyncio.sleep(0)
            left.append("closed")

    await Run(anext(model())).interrupt()
    assert left == ["closed"]


async def test_an_interruption_during_a_bare_yield_reaches_what_is_awaited_next() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        await forever()

    run = Run(work())
    await asyncio.sleep(0)
    run.interruption.fire(Stopped())
    await run.ended()


async def test_an_interruption_from_inside_the_awaited_work_reaches_it() -> None:
    runs: list[Run] = []

    async def work() -> None:
        runs[0].interruption.fire(Stopped())
        await forever()

    runs.append(Run(work()))
    await runs[0].ended()


async def test_an_interruption_as_a_future_is_done_is_not_lost() -> None:
    first: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await first
        await forever()

    run = Run(work())
    await asyncio.sleep(0)
    first.set_result(1)
    run.interruption.fire(Stopped())
    await run.ended()


async def test_a_result_that_comes_with_the_interruption_is_given_up() -> None:
    first: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    run = Run(first)
    await asyncio.sleep(0)
    run.interruption.fire(Stopped())
    if not first.done():
        first.set_result(1)
    await run.ended()


async def test_the_awaited_work_is_cancelled_once_and_may_clean_up_in_peace() -> None:
    seen: list[str] = []
    step: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            await step
            await asyncio.create_task(asyncio.sleep(0))
            seen.append("cleaned")
            raise

    run = Run(work())
    await settle(3)
    run.interruption.fire(Stopped())
    await settle()
    assert seen == ["cancelled"]
    assert not run.task.done()
    step.set_result(None)
    await run.ended()
    assert seen == ["cancelled", "cleaned"]


async def test_work_that_swallows_its_cancellation_is_interrupted_all_the_same() -> None:
    async def work() -> int:
        try:
            await forever()
        except asyncio.CancelledError:
            return 1
        return 2

    await Run(work()).interrupt()


async def test_a_child_that_refuses_to_be_cancelled_is_waited_for() -> None:
    release: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def stubborn() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            await release

    run = Run(asyncio.create_task(stubborn()))
    await settle(3)
    run.interruption.fire(Stopped())
    await settle()
    assert not run.task.done()
    release.set_result(None)
    await run.ended()


async def test_a_cancellation_of_the_task_is_never_swallowed_by_an_interruption() -> None:
    release: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            await forever()
        finally:
            await release

    run = Run(work())
    await settle(3)
    run.interruption.fire(Stopped())
    await settle(3)
    run.task.cancel("from outside")
    with pytest.raises(asyncio.CancelledError, match="from outside"):
        await run.task
    assert run.task.cancelled()


async def test_two_waiters_of_one_interruption_are_both_woken() -> None:
    interruption = Interruption()

    async def wait() -> None:
        await Interruptible(forever(), interruption)

    tasks = [asyncio.create_task(wait()) for _ in range(3)]
    await settle(3)
    interruption.fire(Stopped())
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(item, Stopped) for item in results)


async def test_results_and_errors_come_through_unchanged() -> None:
    interruption = Interruption()
    value = object()
    error = ValueError("x")

    async def give() -> object:
        await asyncio.sleep(0)
        return value

    async def fail() -> object:
        await asyncio.sleep(0)
        raise error

    assert await Interruptible(give(), interruption) is value
    with pytest.raises(ValueError, match="x") as caught:
        await Interruptible(fail(), interruption)
    assert caught.value is error

    async def empty() -> AsyncIterator[int]:
        for item in list[int]():
            yield item

    with pytest.raises(StopAsyncIteration):
        await Interruptible(empty().__anext__(), interruption)


async def test_a_future_that_fails_is_thrown_into_a_hand_written_awaitable() -> None:
    class ByHand:
        """Awaits as some compiled code does: it never asks the future for its result."""

        def __init__(self, future: asyncio.Future[None]) -> None:
            self.future = future

        def __await__(self) -> Generator[Any, Any, str]:
            self.future._asyncio_future_blocking = True
            try:
                yield self.future
            except ValueError as error:
                return f"caught {error}"
            return "nothing"

    async def through(wrap: Callable[[Awaitable[str]], Awaitable[str]]) -> str:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.get_loop().call_soon(future.set_exception, ValueError("x"))
        return await wrap(ByHand(future))

    assert await through(lambda work: work) == "caught x"
    assert await through(lambda work: Interruptible(work, Interruption())) == "caught x"


async def test_an_error_that_comes_with_a_cancellation_is_not_reported_as_missed(
    complaints: list[dict[str, Any]],
) -> None:
    await _fail_and_cancel()
    await settle(3)
    assert complaints == []


async def _fail_and_cancel() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await future

    run = Run(work())
    await settle(2)
    future.set_exception(ValueError("x"))
    run.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run.task


async def test_the_context_is_the_callers_own() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")

    async def model() -> AsyncIterator[str]:
        yield variable.get()
        variable.set("set by the model")
        await asyncio.sleep(0)
        yield variable.get()

    async def read(wrap: Callable[[Awaitable[str]], Awaitable[str]]) -> list[str]:
        variable.set("handler")
        stream = model()
        seen = [await wrap(anext(stream)), await wrap(anext(stream)), variable.get()]
        await stream.aclose()  # type: ignore[attr-defined]  # pyright: ignore
        return seen

    plain = await asyncio.create_task(read(lambda work: work))
    wrapped = await asyncio.create_task(read(lambda work: Interruptible(work, Interruption())))
    assert wrapped == plain == ["handler", "set by the model", "set by the model"]
