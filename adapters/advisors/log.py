"""The advisor that writes a line for each request and each answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from diarist.adapters.advisors.chain import CallNext, StreamNext
from diarist.adapters.advisors.memory import CONVERSATION_ID
from diarist.adapters.advisors.rounds import Rounds
from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse
from diarist.runtime.messages import AssistantMessage


class LoggingAdvisor:
    """Logs ids, sizes, times (s) and outcomes; what was said only with `contents=True`.

    Fields are in the records' `extra` too. By default innermost, where each call of the model is seen with all that
    goes into it; a low order sees what the caller sees.
    """

    def __init__(
        self,
        *,
        logger: logging.Logger | None = None,
        level: int = logging.INFO,
        contents: bool = False,
        order: int = 1000,
    ) -> None:
        self.order = order
        self._logger = logger or logging.getLogger("diarist.chat")
        self._level = level
        self._contents = contents

    async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
        entry = _Entry(request)
        self._asked(entry)
        try:
            response = await next(request)
        except BaseException as error:
            self._failed(entry, error)
            raise
        self._answered(entry, response.message)
        return response

    async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
        entry, rounds = _Entry(request), Rounds()
        self._asked(entry)
        try:
            async for chunk in next(request):
                entry.chunk()
                rounds.add(chunk)
                yield chunk
        except BaseException as error:
            self._failed(entry, error)
            raise
        rounds.end()
        self._answered(entry, rounds.messages()[-1])

    def _asked(self, entry: _Entry) -> None:
        fields = {"messages": len(entry.request.messages), "tools": len(entry.request.options.get("tools", ()))}
        said = [f"{message.role}: {message.text}" for message in entry.request.messages]
        self._write("request", entry, fields, said)

    def _answered(self, entry: _Entry, message: AssistantMessage) -> None:
        fields = {
            **entry.times(),
            "characters": len(message.text),
            "tool_calls": len(message.tool_calls),
            "finish_reason": message.finish_reason,
            "status": message.status,
            "model": message.model,
            "usage": dict(message.usage or {}),
        }
        self._write("response", entry, fields, [message.text])

    def _failed(self, entry: _Entry, error: BaseException) -> None:
        gone = isinstance(error, (asyncio.CancelledError, GeneratorExit))
        fields = {**entry.times(), "error": type(error).__name__}
        self._write("cancelled" if gone else "failed", entry, fields, [str(error)])

    def _write(self, event: str, entry: _Entry, fields: dict[str, Any], said: list[str]) -> None:
        if not self._logger.isEnabledFor(self._level):
            return
        known = {"conversation": entry.request.context.get(CONVERSATION_ID), **fields}
        if self._contents:
            known["contents"] = said
        text = " ".join(f"{key}={value!r}" for key, value in known.items() if value not in (None, {}))
        self._logger.log(self._level, "chat %s: %s", event, text, extra={"chat_event": event, "chat": known})


class _Entry:
    """One request on its way."""

    def __init__(self, request: ChatRequest) -> None:
        self.request = request
        self._start = time.monotonic()
        self._first: float | None = None
        self._chunks = 0

    def chunk(self) -> None:
        if self._first is None:
            self._first = time.monotonic()
        self._chunks += 1

    def times(self) -> dict[str, Any]:
        found: dict[str, Any] = {"seconds": round(time.monotonic() - self._start, 4)}
        if self._first is not None:
            found |= {"first_seconds": round(self._first - self._start, 4), "chunks": self._chunks}
        return found
