"""Chat models over Anthropic's SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse
from diarist.adapters.extras import require
from diarist.adapters.models.upstream import chunks_of
from diarist.adapters.streaming import AnthropicAggregate
from diarist.runtime.converters import to_anthropic

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


class AnthropicModel:
    """As `OpenAIChatModel`, over `messages.create`. `max_tokens` is the most that an answer may have, which Anthropic
    wants to be told; a request's options may say otherwise. Tools may come in OpenAI's form or in Anthropic's own."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: AsyncAnthropic | None = None,
        max_tokens: int = 4096,
    ) -> None:
        self.model = model
        self.max_tokens = max_tokens
        self._owned: AsyncAnthropic | None = None
        if client is None:
            anthropic = require("anthropic", "anthropic", "AnthropicModel")
            client = self._owned = anthropic.AsyncAnthropic(base_url=base_url, api_key=api_key)
        self._client: Any = client  # typed for literal arguments, and these are put together

    async def call(self, request: ChatRequest) -> ChatResponse:
        answer: Any = await self._client.messages.create(**self._arguments(request))
        aggregate = AnthropicAggregate()
        aggregate.add(answer)
        return ChatResponse(aggregate.message(), request.context)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatChunk]:
        arguments = {"stream": True, **self._arguments(request)}
        async with chunks_of(await self._client.messages.create(**arguments)) as chunks:
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
        arguments: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.max_tokens,
            **to_anthropic(request.messages),
            **request.options,
        }
        if "tools" in arguments:
            arguments["tools"] = [as_tool(entry) for entry in arguments["tools"]]
        return arguments


def as_tool(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool of OpenAI's form as Anthropic wants it; any other as it is."""
    function = entry.get("function")
    if entry.get("type") != "function" or not isinstance(function, Mapping):
        return entry
    body = cast("Mapping[str, Any]", function)
    schema: Any = body.get("parameters") or {"type": "object", "properties": {}}
    return {"name": body["name"], "description": body.get("description", ""), "input_schema": schema}


def text_of(chunk: Any) -> str:
    """What an event adds to the text."""
    if chunk.type == "content_block_delta" and chunk.delta.type == "text_delta":
        text: str = chunk.delta.text
        return text
    if chunk.type == "content_block_start" and chunk.content_block.type == "text":
        return str(chunk.content_block.text or "")
    return ""
