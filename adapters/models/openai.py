"""Chat models over OpenAI's SDK: OpenAI itself, and every server with a compatible Chat Completions endpoint."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse
from diarist.adapters.extras import require
from diarist.adapters.models.upstream import chunks_of
from diarist.adapters.streaming import OpenAIChatAggregate
from diarist.adapters.streaming.chunks import fields
from diarist.runtime.converters import to_openai

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIChatModel:
    """`base_url` names another server than OpenAI's. Without `api_key` the SDK reads its environment variable; a
    server of one's own may need none. A `client` that is given stays its owner's; one that is made here is closed by
    `aclose`, or at the end of an `async with`.

    Options of a request are keyword arguments of `chat.completions.create`. Errors are the SDK's own.
    `stream_usage`: ask for the usage at the end of a stream, which some servers refuse.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: AsyncOpenAI | None = None,
        stream_usage: bool = True,
    ) -> None:
        self.model = model
        self._stream_usage = stream_usage
        self._owned: AsyncOpenAI | None = None
        if client is None:
            openai = require("openai", "openai", "OpenAIChatModel")
            if api_key is None and base_url is not None and not os.environ.get("OPENAI_API_KEY"):
                api_key = "none"  # the SDK insists on one
            client = self._owned = openai.AsyncOpenAI(base_url=base_url, api_key=api_key)
        self._client: Any = client  # typed for literal arguments, and these are put together

    async def call(self, request: ChatRequest) -> ChatResponse:
        answer: Any = await self._client.chat.completions.create(**self._arguments(request))
        aggregate = OpenAIChatAggregate()
        aggregate.add(as_chunk(answer))
        return ChatResponse(aggregate.message(), request.context)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatChunk]:
        arguments = {"stream": True, **self._arguments(request)}
        if self._stream_usage:
            arguments.setdefault("stream_options", {"include_usage": True})
        async with chunks_of(await self._client.chat.completions.create(**arguments)) as chunks:
            async for chunk in chunks:
                yield ChatChunk(text_of(chunk), chunk)

    async def aclose(self) -> None:
        """Close the client that was made here."""
        if self._owned is not None:
            await self._owned.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        return {"model": self.model, "messages": to_openai(request.messages), **request.options}


def as_chunk(answer: object) -> Mapping[str, Any]:
    """A whole completion in the form of a chunk: then one reader knows all dialects of both."""
    found = dict(fields(answer) or {})
    choices = [dict(fields(choice) or {}) for choice in found.get("choices") or ()]
    for choice in choices:
        choice["delta"] = choice.pop("message", None)
    return {**found, "choices": choices}


def text_of(chunk: Any) -> str:
    """What a chunk adds to the text of the first choice."""
    for choice in getattr(chunk, "choices", None) or ():
        content = getattr(choice.delta, "content", None)
        if choice.index in (0, None) and isinstance(content, str):
            return content
    return ""
