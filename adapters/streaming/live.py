"""What each chunk adds to the message: text, reasoning, refusal and calls, whatever format the stream has.

It compares the aggregate's message with what was told before, so it needs nothing of the formats, and works with
third parties' aggregates too. Building a message costs its length: while that is short it is done at each chunk,
later once per 1/64 of its growth, so that a long stream stays linear.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from diarist.runtime.aggregates import Aggregate
from diarist.runtime.decoding import DecodedAggregate
from diarist.runtime.messages import AssistantMessage
from diarist.runtime.options import Encoding
from diarist.runtime.parts import ReasoningPart, TextPart, ToolCall, ToolCallPart
from diarist.runtime.plugins import AGGREGATES, DECODERS, find

SHORT = 16_384
"""Characters up to which a message is looked at after each chunk."""
SHARE = 64


class Delta(NamedTuple):
    """What came new. `part` counts the message's parts in their order; a `call` has its tool call so far, and
    `text` is what its arguments grew by."""

    kind: Literal["text", "reasoning", "refusal", "call"]
    part: int
    text: str
    call: ToolCall | None = None


class Live:
    """Feed it the chunks of one stream."""

    def __init__(self, format: str = "auto", encoding: Encoding | None = None) -> None:
        self._aggregate: Aggregate = find(AGGREGATES, format)()
        if encoding is not None:
            self._aggregate = DecodedAggregate(self._aggregate, find(DECODERS, encoding)())
        self._told: dict[int, int] = {}
        """Characters told of each part."""
        self._length = 0
        self._unseen = 0

    def feed(self, chunk: object) -> Iterator[Delta]:
        """Take the next chunk, and tell what is new, now or soon: `finish` tells the rest."""
        self._aggregate.add(chunk)
        self._unseen += 1
        if self._length < SHORT or self._unseen * SHARE > self._length:
            yield from self._look(self._aggregate.message())

    def message(self) -> AssistantMessage:
        """The message so far."""
        return self._aggregate.message()

    def finish(self, message: AssistantMessage | None = None) -> Iterator[Delta]:
        """The stream has ended: what was not told yet. `message`: what the turn made of it, if it is known."""
        if isinstance(self._aggregate, DecodedAggregate):
            self._aggregate.close()
        yield from self._look(message if message is not None else self._aggregate.message(), whole=True)

    def _look(self, message: AssistantMessage, whole: bool = False) -> Iterator[Delta]:
        self._unseen = self._length = 0
        place = -1
        for place, part in enumerate(message.parts):
            if isinstance(part, TextPart):
                yield from self._grown("text", place, part.text, whole)
            elif isinstance(part, ReasoningPart):
                yield from self._grown("reasoning", place, part.text, whole)
            elif isinstance(part, ToolCallPart):
                yield from self._called(place, message.tool_calls[part.call], whole)
        if message.refusal:
            yield from self._grown("refusal", place + 1, message.refusal, whole)

    def _grown(
        self, kind: Literal["text", "reasoning", "refusal"], place: int, text: str, whole: bool
    ) -> Iterator[Delta]:
        self._length += len(text)
        if not whole and text and "\ud800" <= text[-1] <= "\udbff":
            text = text[:-1]  # half a character: the other half comes with the next chunk
        told = self._told.get(place, 0)
        if len(text) > told:
            self._told[place] = len(text)
            yield Delta(kind, place, text[told:])

    def _called(self, place: int, call: ToolCall, whole: bool) -> Iterator[Delta]:
        # "{}" may stand for arguments of which nothing came yet.
        arguments = call.arguments if whole or call.arguments != "{}" else ""
        self._length += len(arguments)
        told = self._told.get(place)
        if call.name and (told is None or len(arguments) > told):
            self._told[place] = len(arguments)
            yield Delta("call", place, arguments[told or 0 :], call)
