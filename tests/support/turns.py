"""Helpers for the tests of turns: a stream that is told what to do, a store that can be held, a clock by hand."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

from diarist import AssistantMessage, ChatMemory, Limits, Message, MessageWindow, UserMessage
from diarist.backends.memory import MemoryRepository
from diarist.runtime.clock import Environment, TimerHandle
from diarist.runtime.conversation import Conversation
from diarist.runtime.errors import BackendError
from diarist.runtime.messages import Status
from diarist.runtime.repository import Commit, CommitOutcome, Conflict, Failed, Settle, Unknown


class PlainText:
    """A stream format of its own: strings are text, a `ToolCall`-like dict is a call, anything else is skipped."""

    def __init__(self) -> None:
        self.seen = 0
        self.skipped = 0
        self._text: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._ended = False

    def add(self, chunk: object) -> None:
        self.seen += 1
        if isinstance(chunk, str):
            self._text.append(chunk)
            self._ended = self._ended or chunk == END
        elif isinstance(chunk, dict):
            self._calls.append({**chunk})
        else:
            self.skipped += 1

    def message(
        self, *, cancelled: bool = False, error: BaseException | Mapping[str, Any] | None = None
    ) -> AssistantMessage:
        status: Status = "complete"
        about: Mapping[str, Any] | None = None
        if error is not None:
            status = "error"
            about = {"message": str(error)}
        elif cancelled and not self._ended:
            status = "cancelled"
        text = "".join(piece for piece in self._text if piece != END)
        return AssistantMessage(text, self._calls, status=status, error=about)

    def messages(
        self, *, cancelled: bool = False, error: BaseException | Mapping[str, Any] | None = None
    ) -> tuple[AssistantMessage, ...]:
        return (self.message(cancelled=cancelled, error=error),)


END = "\0end"
"""A chunk that tells the end of the answer, as vendors' terminal events do."""


def call(name: str) -> dict[str, Any]:
    """A tool call as a chunk."""
    return {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}


class Stream:
    """An upstream like an SDK's: an object with `__anext__` and `aclose`.

    Its script holds chunks, errors to raise, and functions whose awaitable it waits for before it goes on.
    """

    def __init__(self, *script: Any) -> None:
        self._script = list(script)
        self.closed: int = 0
        self.pending = asyncio.Event()
        """Set while the stream waits for something in its script."""

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:
        while self._script:
            item = self._script.pop(0)
            if isinstance(item, BaseException):
                raise item
            if not callable(item):
                return item
            self.pending.set()
            await cast(Callable[[], Awaitable[object]], item)()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed += 1
        await asyncio.sleep(0)


async def forever() -> None:
    """What a stream waits for whose model never answers."""
    await asyncio.get_running_loop().create_future()


class HeldStore(MemoryRepository):
    """A store whose commits can be held back, and made to end in a chosen way."""

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()
        self.free.set()
        self.outcomes: list[CommitOutcome] = []
        """How the next commits end, in order; those after them succeed."""
        self.reached = asyncio.Event()
        """Set while a commit is held."""

    def hold(self) -> None:
        self.free.clear()
        self.reached.clear()

    async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        if not self.free.is_set():
            self.reached.set()
            await self.free.wait()
        for index, item in enumerate(commits):
            told = self.outcomes.pop(0) if self.outcomes else None
            if told is None or isinstance(told, Unknown):
                real = self._commit(item)
                told = told or real
            settle(index, told)


FULL = Failed(BackendError("the disk is full", outcome="not_executed"))
LOST = Unknown(OSError("the connection is gone"))
TAKEN = Conflict(None)


class Timer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Time stands still until `advance`."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._timers: list[tuple[float, int, Callable[[], None], Timer]] = []
        self._count = 0

    def time(self) -> float:
        return 1_700_000_000.0 + self.now

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        timer = Timer()
        self._count += 1
        heapq.heappush(self._timers, (self.now + delay, self._count, callback, timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass; what is due is called in order."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            due, _, callback, timer = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            if not timer.cancelled:
                callback()
        self.now = end


@asynccontextmanager
async def opened(
    store: MemoryRepository | None = None,
    *,
    window: Any = None,
    limits: Limits | None = None,
    clock: ManualClock | None = None,
    seed: int = 1,
) -> AsyncGenerator[ChatMemory, None]:
    """A memory over a store of this process, with ids out of a seed."""
    environment = Environment(random=Random(seed)) if clock is None else Environment(clock, Random(seed))
    memory = ChatMemory(
        store if store is not None else MemoryRepository(),
        window=window if window is not None else MessageWindow(50),
        limits=limits,
        environment=environment,
    )
    async with memory:
        yield memory


async def settle(rounds: int = 30) -> None:
    """Let everything run that can run."""
    for _ in range(rounds):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object], rounds: int = 100_000) -> None:
    """Let everything run until a condition holds."""
    for _ in range(rounds):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


def lines(messages: Sequence[Message]) -> list[str]:
    """Messages as short texts: role, text, status and calls."""
    return [_line(message) for message in messages]


def _line(message: Message) -> str:
    text = f"{message.role[0]}:{message.text}"
    if isinstance(message, AssistantMessage):
        text += "".join(f"+{item.id}" for item in message.tool_calls)
        if message.status not in (None, "complete"):
            text += f" ({message.status})"
    return text


async def stored(chat: Conversation) -> list[str]:
    """What the model would see next, as short texts."""
    return lines(await chat.get(read="fresh"))


async def whole_log(chat: Conversation) -> list[str]:
    """All that was ever stored, as short texts."""
    return lines([item.message for item in await chat.history(limit=1000)])


class Talk:
    """A turn in a task of its own, which answers when it is told to."""

    def __init__(self, chat: Conversation, text: str, order: list[str] | None = None, **options: Any) -> None:
        self.inside = asyncio.Event()
        self.go = asyncio.Event()
        self.stream = Stream("answer to ", self.go.wait, text)
        self.order = order if order is not None else []
        self.task = asyncio.create_task(self._run(chat, text, options))

    async def _run(self, chat: Conversation, text: str, options: dict[str, Any]) -> None:
        async with chat.turn(UserMessage(text), **options) as turn:
            self.order.append(text)
            self.inside.set()
            async for _ in turn.record(self.stream, format="text"):
                pass

    async def finish(self) -> None:
        self.go.set()
        await self.task


def pair(text: str) -> list[str]:
    return [f"u:{text}", f"a:answer to {text}"]
