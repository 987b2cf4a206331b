"""Chunks of our own chat clients: the vendor's chunks inside them, and what advisors made of their text."""

from __future__ import annotations

from diarist.adapters.chat import ChatChunk
from diarist.adapters.streaming.core import Error
from diarist.adapters.streaming.pieces import joined
from diarist.adapters.streaming.text import TextAggregate
from diarist.runtime.aggregates import Aggregate
from diarist.runtime.messages import AssistantMessage


class ChatAggregate:
    """One round of `ChatChunk`s. What the vendor's chunks say counts, except for text that an advisor changed or
    added: then the text is what came through, and calls, usage and the rest are the vendor's.

    `vendor` aggregates the chunks inside.
    """

    def __init__(self, vendor: Aggregate) -> None:
        self._vendor = vendor
        self._texts: list[str] = []
        self._edited = False
        self._foreign = 0

    @property
    def seen(self) -> int:
        return len(self._texts) + self._foreign

    @property
    def skipped(self) -> int:
        return self._vendor.skipped + self._foreign

    def add(self, chunk: object) -> None:
        """Take the next chunk. Never raises; what is no `ChatChunk` is skipped."""
        if not isinstance(chunk, ChatChunk):
            self._foreign += 1
            return
        self._texts.append(chunk.text)
        self._edited = self._edited or chunk.is_edited
        if chunk.raw is not None:
            self._vendor.add(chunk.raw)

    def message(self, *, cancelled: bool = False, error: Error = None) -> AssistantMessage:
        """The message so far, of the lowest choice."""
        return self.messages(cancelled=cancelled, error=error)[0]

    def messages(self, *, cancelled: bool = False, error: Error = None) -> tuple[AssistantMessage, ...]:
        """One message per choice, by index. Text that an advisor made belongs to the first."""
        if not self._vendor.seen:
            texts = TextAggregate()
            for text in self._texts:
                texts.add(text)
            return texts.messages(cancelled=cancelled, error=error)
        first, *others = self._vendor.messages(cancelled=cancelled, error=error)
        if self._edited or not first.text:
            text = joined(self._texts)
            first = first if text == first.text else first.replace(text=text)
        return (first, *others)
