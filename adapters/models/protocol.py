"""The port of models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse


class ChatModel(Protocol):
    """What answers at the end of a chain. Any object with these two methods; it may be used by many at once."""

    async def call(self, request: ChatRequest) -> ChatResponse:
        """The whole answer. The response's context is the request's."""
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatChunk]:
        """The answer in chunks, at once as they come. Closing the iterator (`aclose`) ends the upstream."""
        ...
