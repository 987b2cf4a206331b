"""The advisor that asks again when a model fails for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, Final, TypeVar

from diarist.adapters.advisors.chain import CallNext, StreamNext
from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse
from diarist.adapters.extras import require
from diarist.runtime.errors import DiaristError
from diarist.runtime.recorder import close_stream

T = TypeVar("T")

PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""HTTP statuses that may be others in a moment; 529 is Anthropic's "overloaded"."""

_CONNECTION: Final = frozenset({"APIConnectionError", "APITimeoutError", "TransportError"})
"""Names, among the base classes, of the SDKs' and their HTTP client's errors without a status."""


def is_passing(error: BaseException) -> bool:
    """What is tried again by default: time-outs, lost connections, `PASSING` statuses; never our own errors."""
    if isinstance(error, DiaristError):
        return False
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in PASSING
    names = {base.__name__ for base in type(error).__mro__}
    return isinstance(error, (TimeoutError, ConnectionError)) or not _CONNECTION.isdisjoint(names)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds before the next try: random, up to `first` doubled with each try, at most `most`. What a server asks
    for (`Retry-After`) counts, but no more than `most`."""

    first: float = 0.5
    most: float = 20.0


class RetryAdvisor:
    """Tries up to `attempts` times, as long as nothing was given to the caller.

    A stream is never repeated after its first chunk: whoever reads it would get the beginning twice. Errors come
    through as they are. By default inside the tool loop, so that one call of the model is repeated and no tool. The
    vendors' SDKs retry by themselves too (`max_retries` of their clients): give one of the two the job.
    """

    def __init__(
        self,
        attempts: int = 3,
        *,
        order: int = 200,
        backoff: Backoff | None = None,
        retry: Callable[[BaseException], bool] = is_passing,
        sleep: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        if attempts < 1:
            raise ValueError("attempts must be at least 1")
        self.order = order
        self._tenacity = require("tenacity", "retry", "RetryAdvisor")
        self._backoff = backoff or Backoff()

        def wanted(error: BaseException) -> bool:
            return isinstance(error, Exception) and retry(error)

        settings: dict[str, Any] = {} if sleep is None else {"sleep": sleep}
        self._settings = {
            **settings,
            "stop": self._tenacity.stop_after_attempt(attempts),
            "retry": self._tenacity.retry_if_exception(wanted),
            "wait": self._wait,
            "reraise": True,
        }
        self._random = self._tenacity.wait_random_exponential(self._backoff.first, self._backoff.most)

    async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
        return await self._tried(lambda: next(request))

    async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
        first, rest = await self._tried(lambda: _started(next(request)))
        if first is not None:
            yield first
            async for chunk in rest:
                yield chunk

    async def _tried(self, function: Callable[[], Awaitable[T]]) -> T:
        async def attempt() -> T:
            return await function()

        result: T = await self._tenacity.AsyncRetrying(**self._settings)(attempt)
        return result

    def _wait(self, state: Any) -> float:
        asked = retry_after(state.outcome.exception())
        drawn: float = self._random(state)
        return min(max(asked or 0.0, drawn), self._backoff.most)


async def _started(stream: AsyncIterator[ChatChunk]) -> tuple[ChatChunk | None, AsyncIterator[ChatChunk]]:
    """A stream with its first chunk; None if it has ended without one."""
    try:
        return await anext(stream), stream
    except StopAsyncIteration:
        return None, stream
    except Exception:
        with suppress(Exception):  # the failure that counts is on its way
            await close_stream(stream, stream)
        raise


def retry_after(error: BaseException | None) -> float | None:
    """What the server of an HTTP error asked for, in seconds: RFC 9110, 10.2.3."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        return None
    value = headers.get("retry-after")
    if not value:
        return None
    with suppress(ValueError, TypeError):
        return max(float(value), 0.0)
    with suppress(ValueError, TypeError):
        return max(parsedate_to_datetime(value).timestamp() - time(), 0.0)
    return None
