"""A model that needs no network: for demos, tests, and trying things out."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse
from diarist.runtime.messages import AssistantMessage, Message, UserMessage
from diarist.runtime.parts import ToolCall

Pause = Callable[[float], Awaitable[None]]

_TOKEN: Final = re.compile(r"\s*\S{1,12}|\s+\Z")
_OPENINGS: Final = ("Let us see.", "Good question.", "Gladly.", "In short:", "Here is what I know.", "Step by step:")
_TALE: Final = (
    "a diary keeps every word in the order in which it was said and nobody tears a page out so that tomorrow two "
    "readers who open it at once find the same story with its first line and its last line where they were left"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A reply that breaks off: after `text`, `error` is raised."""

    error: Exception
    text: str = ""


Reply = str | AssistantMessage | Failure
"""A text, a message with tool calls, or a failure."""


class ScriptedModel:
    """Says the same words after the same delays for the same seed and question.

    `reply`: a function that makes the reply from the messages, or replies that are given one after the other, in the
    order of the requests (`IndexError` when they are used up); without it the words are drawn. `delay`: seconds
    between two chunks, on average; 0: none. `pause` is what waits.
    """

    def __init__(
        self,
        reply: Callable[[Sequence[Message]], Reply] | Sequence[Reply] | None = None,
        *,
        seed: int = 0,
        delay: float = 0.02,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._reply = reply if callable(reply) else self.drawn if reply is None else _InTurn(reply)
        self._seed = seed
        self._delay = delay
        self._pause = pause

    async def call(self, request: ChatRequest) -> ChatResponse:
        """The whole answer to a request, after one delay."""
        reply = self._reply(request.messages)
        if self._delay:
            await self._pause(self._delay)
        if isinstance(reply, Failure):
            raise reply.error
        message = AssistantMessage(reply) if isinstance(reply, str) else reply
        reason = "tool_calls" if message.tool_calls else "stop"
        return ChatResponse(message.replace(finish_reason=message.finish_reason or reason), request.context)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatChunk]:
        """The answer to a request in chunks of about a word; inside they have the form of OpenAI's."""
        reply = self._reply(request.messages)
        text = reply if isinstance(reply, str) else reply.text
        async for token in self.say(text):
            yield ChatChunk(token, _chunk({"content": token}))
        if isinstance(reply, Failure):
            raise reply.error
        calls = reply.tool_calls if isinstance(reply, AssistantMessage) else ()
        for delta in _call_deltas(calls):
            yield ChatChunk(raw=_chunk({"tool_calls": [delta]}))
        given = reply.finish_reason if isinstance(reply, AssistantMessage) else None
        yield ChatChunk(raw=_chunk({}, given or ("tool_calls" if calls else "stop")))

    async def say(self, text: str) -> AsyncIterator[str]:
        """A given text in chunks; joined, they are the text."""
        chance = self._chance(text)
        for token in _TOKEN.findall(text):
            if self._delay:
                await self._pause(chance.uniform(0.5, 1.5) * self._delay)
            yield token

    def drawn(self, messages: Sequence[Message]) -> str:
        """An answer to the last thing the user said, drawn from a few words."""
        asked = next((message.text for message in reversed(messages) if isinstance(message, UserMessage)), "")
        chance = self._chance(asked)
        tale = _TALE.split()
        start = chance.randrange(len(tale))
        words = (tale * 2)[start : start + chance.randint(8, 36)]
        return f"{chance.choice(_OPENINGS)} You said “{asked[:60]}”; and {' '.join(words)}."

    def _chance(self, text: str) -> random.Random:
        return random.Random(f"{self._seed} {text}".encode("utf-8", "surrogatepass"))


class _InTurn:
    """Replies one after the other."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = tuple(replies)
        self._next = 0

    def __call__(self, _messages: Sequence[Message]) -> Reply:
        place, self._next = self._next, self._next + 1
        if place >= len(self._replies):
            raise IndexError(f"the script has {len(self._replies)} replies, and this is request {place + 1}")
        return self._replies[place]


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"object": "chat.completion.chunk", "model": "scripted", "choices": [choice]}


def _call_deltas(calls: Sequence[ToolCall]) -> Iterator[dict[str, Any]]:
    """Calls as vendors stream them: id and name first, then the arguments in two pieces."""
    for index, call in enumerate(calls):
        half = len(call.arguments) // 2
        head = {"name": call.name, "arguments": call.arguments[:half]}
        yield {"index": index, "id": call.id, "type": "function", "function": head}
        yield {"index": index, "function": {"arguments": call.arguments[half:]}}
