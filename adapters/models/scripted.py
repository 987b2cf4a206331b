"""A model that needs no network: for demos, tests, and trying things out."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from diarist.runtime.messages import Message, UserMessage

Pause = Callable[[float], Awaitable[None]]

_TOKEN: Final = re.compile(r"\s*\S{1,12}|\s+\Z")
_OPENINGS: Final = ("Let us see.", "Good question.", "Gladly.", "In short:", "Here is what I know.", "Step by step:")
_TALE: Final = (
    "a diary keeps every word in the order in which it was said and nobody tears a page out so that tomorrow two "
    "readers who open it at once find the same story with its first line and its last line where they were left"
)


class ScriptedModel:
    """Says the same words after the same delays for the same seed and question.

    `reply` makes the text of an answer from the messages; without it the words are drawn. `delay`: seconds between
    two chunks, on average; 0: none. `pause` is what waits.
    """

    def __init__(
        self,
        reply: Callable[[Sequence[Message]], str] | None = None,
        *,
        seed: int = 0,
        delay: float = 0.02,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._reply = reply or self.drawn
        self._seed = seed
        self._delay = delay
        self._pause = pause

    async def call(self, request: Sequence[Message]) -> str:
        """The whole answer to a conversation, at once."""
        return self._reply(request)

    def stream(self, request: Sequence[Message]) -> AsyncIterator[str]:
        """The answer to a conversation in chunks of about a word."""
        return self.say(self._reply(request))

    async def say(self, text: str) -> AsyncIterator[str]:
        """A given text in chunks; joined, they are the text."""
        chance = self._chance(text)
        for token in _TOKEN.findall(text):
            if self._delay:
                await self._pause(chance.uniform(0.5, 1.5) * self._delay)
            yield token

    def drawn(self, request: Sequence[Message]) -> str:
        """An answer to the last thing the user said, drawn from a few words."""
        asked = next((message.text for message in reversed(request) if isinstance(message, UserMessage)), "")
        chance = self._chance(asked)
        tale = _TALE.split()
        start = chance.randrange(len(tale))
        words = (tale * 2)[start : start + chance.randint(8, 36)]
        return f"{chance.choice(_OPENINGS)} You said “{asked[:60]}”; and {' '.join(words)}."

    def _chance(self, text: str) -> random.Random:
        return random.Random(f"{self._seed} {text}".encode("utf-8", "surrogatepass"))
