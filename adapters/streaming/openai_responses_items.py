"""One output item of a streamed Response: what its events say, and the pieces that it makes of them.

Three layers tell the same: deltas, done events, and the whole item of `output_item.done`. The later layer
replaces the earlier one and is never appended; a layer that is empty wipes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from diarist.adapters.streaming.chunks import Fields, fields, listed, plain, word
from diarist.adapters.streaming.pieces import (
    Call,
    Extras,
    Opaque,
    Piece,
    Span,
    collect,
    joined,
    note,
    note_rest,
)

_MESSAGE = frozenset({"type", "role", "status", "content"})
_REASONING = frozenset({"type", "status", "summary", "content"})
_CALL = frozenset({"type", "status", "call_id", "name", "arguments", "input", "parsed_arguments"})
_TEXT_PART = frozenset({"type", "text", "annotations", "logprobs", "parsed"})
_INPUTS = {"function_call": "arguments", "custom_tool_call": "input"}
"""The items that are calls for the application, with the field of their arguments."""


class Content:
    """A text of an item: `whole` replaces the fragments, `started` counts if nothing else came."""

    __slots__ = ("block", "extras", "fragments", "started", "whole")

    def __init__(self) -> None:
        self.fragments: list[str] = []
        self.started = ""
        self.whole = ""
        self.extras: Extras = {}
        self.block: object = None

    @property
    def text(self) -> str:
        return self.whole or joined(self.fragments) or self.started

    def annotate(self, part: Fields) -> None:
        """What a whole part says beside its text; lists replace what was collected."""
        for key in ("annotations", "logprobs"):
            if entries := listed(part.get(key)):
                self.extras.pop(key, None)
                collect(self.extras, key, entries)
        note_rest(self.extras, part, _TEXT_PART)


class Item:
    """One output item under construction."""

    __slots__ = ("added", "contents", "done", "index", "kind")

    def __init__(self, kind: str, index: int | None) -> None:
        self.kind = kind
        self.index = index
        self.added: Extras = {}
        self.done: Extras = {}
        self.contents: dict[tuple[int, str], Content] = {}

    @classmethod
    def whole(cls, entry: object, index: int) -> Item:
        """An item of the terminal response."""
        kept: Extras = plain(entry) or {}
        item = cls(word(kept.get("type")) or "", index)
        item.done = kept
        return item

    def content(self, index: int, slot: str) -> Content:
        found = self.contents.get((index, slot))
        if found is None:
            found = self.contents[index, slot] = Content()
        return found

    def field(self, key: str) -> object:
        """A field of the whole item, else of the item as it was added."""
        value = self.done.get(key)
        return self.added.get(key) if value in (None, "", []) else value

    def pieces(self, refusal: list[str]) -> Iterable[Piece]:
        if self.kind == "message":
            return self._message(refusal)
        if self.kind == "reasoning":
            return [self._reasoning()]
        return [self._call()] if self.kind in _INPUTS else [self._opaque()]

    def _vendor(self, known: frozenset[str]) -> Extras:
        extras: Extras = {}
        note_rest(extras, self.added, known)
        note_rest(extras, self.done, known)
        return extras

    def _message(self, refusal: list[str]) -> Iterable[Piece]:
        contents = self._contents()
        for (_, slot), content in sorted(contents.items(), key=lambda entry: entry[0][0]):
            if slot == "refusal":
                refusal.append(content.text)
            elif slot != "text":
                yield Opaque(content.block)
            elif content.text or content.extras:
                span = Span("text")
                span.fragments.append(content.text)
                span.extras = {**self._vendor(_MESSAGE), **content.extras}
                yield span

    def _contents(self) -> dict[tuple[int, str], Content]:
        """The contents of the whole item, unless only the events have text; annotations of both."""
        whole = contents_of(listed(self.done.get("content")))
        if not any(content.text for content in whole.values()) and self.contents:
            whole = {**whole, **self.contents}
        for place, content in whole.items():
            told = self.contents.get(place)
            if told is not None and told is not content:
                content.extras = {**told.extras, **content.extras}
        return whole or contents_of(listed(self.added.get("content")))

    def _texts(self, key: str) -> list[str]:
        """The texts of `summary` or `content` of a reasoning item."""
        events = [content.text for (_, slot), content in sorted(self.contents.items()) if slot == key]
        for texts in (_texts_of(self.done.get(key)), events, _texts_of(self.added.get(key))):
            if any(texts):
                return [text for text in texts if text]
        return []

    def _reasoning(self) -> Span:
        """The summary, or the raw reasoning where there is none; both are kept apart in the extras."""
        summary, raw = self._texts("summary"), self._texts("content")
        span = Span("reasoning")
        span.fragments = summary or raw
        span.extras = self._vendor(_REASONING)
        if summary:
            span.extras["summary"] = list(summary)
            note(span.extras, "content", raw or None)
        return span

    def _call(self) -> Call:
        key = _INPUTS[self.kind]
        call = Call(word(self.field("call_id")), word(self.field("name")))
        call.take(self.done.get(key))
        if not call.arguments and (content := self.contents.get((0, key))) is not None:
            call.take(content.text)
        if not call.arguments:
            call.take(self.added.get(key))
        call.extras = self._vendor(_CALL)
        if self.kind == "custom_tool_call":
            call.kind = "custom"
            call.extras["type"] = self.kind
        return call

    def _opaque(self) -> Opaque:
        """A hosted call or another kind: as it was done, else as it was added with what was streamed."""
        if self.done:
            return Opaque(self.done)
        streamed = {slot: content.text for (_, slot), content in self.contents.items()}
        return Opaque({"type": self.kind, **self.added, **streamed})


def contents_of(entries: Iterable[object]) -> dict[tuple[int, str], Content]:
    """The contents of a whole message item."""
    contents: dict[tuple[int, str], Content] = {}
    for index, entry in enumerate(entries):
        if (part := fields(entry)) is not None:
            content = contents[index, slot_of(part)] = Content()
            content.whole = text_in(part)
            content.block = part
            if slot_of(part) == "text":
                content.annotate(part)
    return contents


def slot_of(part: Fields) -> str:
    """Which of an item's texts a content part holds; its type for one of another kind."""
    kind = word(part.get("type"))
    known = {"output_text": "text", "text": "text", "reasoning_text": "content", "summary_text": "summary"}
    return known.get(kind or "text", kind or "text")


def text_in(part: Fields) -> str:
    text = part.get("refusal") if slot_of(part) == "refusal" else part.get("text")
    return text if isinstance(text, str) else ""


def _texts_of(entries: object) -> list[str]:
    found = ((fields(entry) or {}).get("text") for entry in listed(entries))
    return [text for text in found if isinstance(text, str)]
