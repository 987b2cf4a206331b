"""A chat client: a model, and the advisors around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from diarist.adapters.advisors.chain import Advisor, Chain
from diarist.adapters.advisors.memory import CONVERSATION_ID
from diarist.adapters.advisors.streams import ChatStream
from diarist.adapters.chat import ChatRequest, ChatResponse
from diarist.adapters.models.protocol import ChatModel
from diarist.runtime.intake import Given
from diarist.runtime.messages import Message, SystemMessage, UserMessage

Asked = str | Given | Sequence[Given]
"""A text, a message, or several; messages may be dicts in the OpenAI chat format."""


class ChatClient:
    """Asks `model` through `advisors`. Immutable, for any number of requests at once. It owns nothing: whoever made
    model and memory closes them. `options` are of every request; a request's own go before them."""

    def __init__(
        self, model: ChatModel, advisors: Iterable[Advisor] = (), *, options: Mapping[str, Any] | None = None
    ) -> None:
        self.chain = Chain(model, advisors)
        self._options = dict(options or {})

    async def call(
        self,
        messages: Asked,
        *,
        conversation_id: str | None = None,
        system: str | None = None,
        context: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> ChatResponse:
        """The whole answer. `system` is put first; `conversation_id` goes into the context, for the memory."""
        return await self.chain.call(self._request(messages, conversation_id, system, context, options))

    def stream(
        self,
        messages: Asked,
        *,
        conversation_id: str | None = None,
        system: str | None = None,
        context: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> ChatStream:
        """The answer in chunks: `async for chunk in client.stream(…)`. Nothing happens before it is iterated."""
        return self.chain.stream(self._request(messages, conversation_id, system, context, options))

    def _request(
        self,
        asked: Asked,
        conversation_id: str | None,
        system: str | None,
        context: Mapping[str, Any] | None,
        options: Mapping[str, Any] | None,
    ) -> ChatRequest:
        messages = _messages(asked)
        if system is not None:
            messages = [SystemMessage(system), *messages]
        known = dict(context or {})
        if conversation_id is not None:
            known[CONVERSATION_ID] = conversation_id
        return ChatRequest(cast("list[Message]", messages), known, {**self._options, **(options or {})})


def _messages(asked: Asked) -> list[Given]:
    if isinstance(asked, str):
        return [UserMessage(asked)]
    if isinstance(asked, Message | Mapping):
        return [asked]
    return list(asked)
