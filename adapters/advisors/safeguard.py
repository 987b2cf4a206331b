"""The advisor that answers certain questions itself."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final

from diarist.adapters.advisors.chain import CallNext, StreamNext
from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse
from diarist.runtime.messages import AssistantMessage, Message, UserMessage

REFUSAL: Final = "I'm sorry, but I can't help with that."


class SafeguardAdvisor:
    """Keeps what matches one of `blocked` from the model, and answers with `answer` instead.

    A string matches anywhere in the text, without regard to case; a compiled pattern where `search` finds it. Only
    what the user says now is looked at, what follows the last answer: neither history, nor system messages, nor what
    other advisors recall. By default it is outside the memory (a lower order), so that nothing of it is remembered.
    """

    def __init__(self, blocked: Iterable[str | re.Pattern[str]], *, answer: str = REFUSAL, order: int = -100) -> None:
        self.order = order
        self._answer = answer
        self._tests = [_contains(item) if isinstance(item, str) else item.search for item in blocked]

    async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
        if self.blocks(request.messages):
            return ChatResponse(AssistantMessage(self._answer, finish_reason="content_filter"), request.context)
        return await next(request)

    async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
        if self.blocks(request.messages):
            yield ChatChunk(self._answer)
            return
        async for chunk in next(request):
            yield chunk

    def blocks(self, messages: Sequence[Message]) -> bool:
        """Whether these messages are answered here."""
        texts = [message.text for message in latest(messages) if isinstance(message, UserMessage)]
        return any(matches(text) for text in texts for matches in self._tests)


def _contains(wanted: str) -> Callable[[str], object]:
    folded = wanted.casefold()
    if not folded.strip():
        raise ValueError("a blank string would match everything")
    return lambda text: folded in text.casefold()


def latest(messages: Sequence[Message]) -> Sequence[Message]:
    """What follows the last answer."""
    for place in range(len(messages) - 1, -1, -1):
        if isinstance(messages[place], AssistantMessage):
            return messages[place + 1 :]
    return messages
