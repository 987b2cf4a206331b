"""What tests of the actor share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from diarist import (
    ChatMemory,
    Conversation,
    Environment,
    Limits,
    Message,
    MessageWindow,
    Outcome,
    Retention,
    UserMessage,
    Window,
)
from diarist.backends.memory import MemoryRepository
from diarist.runtime.errors import outcome_of
from tests.support.clock import FakeClock, fake_environment
from tests.support.faulty import FaultyRepository, Gate

T = TypeVar("T")

MOST_STEPS = 5000


@dataclass
class Rig:
    """An open memory over a store that can be told to misbehave, on a clock that stands still."""

    memory: ChatMemory
    store: FaultyRepository
    inner: MemoryRepository
    clock: FakeClock
    environment: Environment

    @property
    def chat(self) -> Conversation:
        return self.memory.conversation("chat")

    @asynccontextmanager
    async def another(self, limits: Limits | None = None, **options: Any) -> AsyncGenerator[ChatMemory]:
        """A second memory on the same data, as another process would have it."""
        memory = ChatMemory(self.inner, limits=limits, environment=self.environment, **options)
        async with memory:
            yield memory

    async def flying(self, work: Coroutine[Any, Any, T]) -> tuple[asyncio.Task[T], Gate]:
        """Start a change, and wait until its commit is in flight; the gate lets it go on."""
        gate = self.store.hold("commit")
        task = start(work)
        await gate.reached()
        return task, gate


@asynccontextmanager
async def rig(
    limits: Limits | None = None,
    *,
    window: Window | None = None,
    sole_writer: bool = False,
    inner: MemoryRepository | None = None,
    capabilities: dict[str, Any] | None = None,
    retention: Retention | None = None,
) -> AsyncGenerator[Rig]:
    """Set up and open; closing drains."""
    clock, environment = fake_environment()
    inner = inner if inner is not None else MemoryRepository()
    store = FaultyRepository(inner)
    store.overrides = capabilities or {}
    memory = ChatMemory(
        store,
        window=window or MessageWindow(1000),
        limits=limits,
        sole_writer=sole_writer,
        environment=environment,
        retention=retention,
    )
    async with memory:
        try:
            yield Rig(memory, store, inner, clock, environment)
        except BaseException:
            # A test that failed has left calls hanging, on a clock that nobody moves any more.
            await memory.drain(0)
            raise


def start(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run work beside the test."""
    return asyncio.get_running_loop().create_task(work)


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until the condition holds."""
    for _ in range(MOST_STEPS):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the awaited state did not come")


async def queued(*work: Coroutine[Any, Any, T]) -> list[asyncio.Task[T]]:
    """Start calls one after the other, so that each has reached its queue before the next."""
    tasks: list[asyncio.Task[T]] = []
    for item in work:
        tasks.append(start(item))
        await asyncio.sleep(0)
    return tasks


def user(text: str) -> UserMessage:
    return UserMessage(text)


def texts(messages: Iterable[Message]) -> list[str]:
    return [message.text for message in messages]


async def log_of(chat: Conversation) -> list[str]:
    """The texts of the whole log."""
    return [item.message.text for item in await chat.history(limit=10_000)]


async def failure(work: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> BaseException:
    """The error that work ends with, a cancellation too."""
    try:
        result = await work
    except (Exception, asyncio.CancelledError) as error:
        return error
    raise AssertionError(f"no error, but {result!r}")


def outcome(error: BaseException) -> Outcome:
    """What became of a failed call; an error without an outcome is a failure of the test."""
    found = outcome_of(error)
    assert found is not None, f"{error!r} has no outcome"
    return found


def retry_key_of(error: BaseException) -> str:
    """The key to repeat an unknown call with."""
    found = outcome(error)
    assert found.outcome == "unknown", found
    assert found.idempotency_key is not None
    return found.idempotency_key
