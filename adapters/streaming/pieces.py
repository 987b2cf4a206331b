"""What a message is made of while it grows: spans of text or reasoning, tool calls, opaque blocks, in order.

Fragments are kept in lists and joined once, when the message is asked for: adding one costs the same whether
it is the tenth or the ten-thousandth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from diarist.adapters.streaming.chunks import plain, word
from diarist.runtime.parts import OpaquePart, Part, ReasoningPart, TextPart, ToolCall, ToolCallPart, ToolKind
from diarist.runtime.values import FrozenDict, FrozenList

SpanKind = Literal["text", "reasoning"]
Extras = dict[str, Any]

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def joined(fragments: Iterable[str]) -> str:
    """Fragments as one string; halves of a surrogate pair become one character, a lone one stays."""
    text = "".join(fragments)
    return text if text.isascii() else _PAIR.sub(_one_character, text)


def _one_character(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def encoded(arguments: dict[str, Any] | list[Any]) -> str:
    """Arguments that came as an object: compact JSON, key order kept, non-ASCII as it is."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def note(extras: Extras, key: str, value: object) -> None:
    """Keep vendor data under its key: the last value that is not null counts, nothing is concatenated.

    A key that is no string is nonsense and not kept: no message could hold it.
    """
    if value is not None and type(key) is str and (kept := plain(value)) is not None:
        extras[key] = kept


def note_rest(extras: Extras, source: Mapping[str, Any], known: frozenset[str]) -> None:
    """Keep all of a vendor's fields but the known ones."""
    for key, value in source.items():
        if key not in known:
            note(extras, key, value)


def collect(extras: Extras, key: str, entries: Iterable[object]) -> None:
    """Keep a list that arrives piece by piece (citations, annotations, log probabilities)."""
    kept = [entry for entry in map(plain, entries) if entry is not None]
    if kept:
        extras.setdefault(key, []).extend(kept)


class Span:
    """A run of text or reasoning. With vendor data in `extras` it is kept even without any text."""

    __slots__ = ("extras", "fragments", "kind")

    def __init__(self, kind: SpanKind) -> None:
        self.kind: SpanKind = kind
        self.fragments: list[str] = []
        self.extras: Extras = {}

    def part(self) -> TextPart | ReasoningPart | None:
        text = joined(self.fragments)
        if not text and not self.extras:
            return None
        return (TextPart if self.kind == "text" else ReasoningPart)(text, extras=self.extras)


class Call:
    """A tool call. Id and name are set once and never grow; `blank` is what no arguments at all stand for."""

    __slots__ = ("blank", "extras", "fragments", "id", "kind", "name", "whole")

    def __init__(self, call_id: str | None = None, name: str | None = None, *, blank: str = "") -> None:
        self.id = call_id
        self.name = name
        self.kind: ToolKind = "function"
        self.fragments: list[str] = []
        self.whole: str | None = None
        self.extras: Extras = {}
        self.blank = blank

    def identify(self, call_id: str | None, name: object) -> None:
        self.id = self.id or call_id
        self.name = self.name or word(name)

    def take(self, arguments: object) -> None:
        """A fragment of the raw string, or all arguments as an object, which counts if no fragment comes."""
        if isinstance(arguments, str):
            if arguments:
                self.fragments.append(arguments)
        elif isinstance(whole := plain(arguments), (FrozenDict, FrozenList)):
            self.whole = encoded(whole)

    @property
    def arguments(self) -> str:
        return joined(self.fragments) or self.whole or self.blank

    @property
    def is_empty(self) -> bool:
        """Nothing came that says anything: neither id nor name nor arguments."""
        return not (self.id or self.name or self.fragments or self.whole or self.extras)

    def tool_call(self) -> ToolCall:
        return ToolCall(self.id, self.name or "", self.arguments, self.kind, extras=self.extras)


class Opaque:
    """A block of another kind, kept whole. Subclasses complete it from what is streamed for it."""

    __slots__ = ("data",)

    def __init__(self, data: object) -> None:
        kept = plain(data)
        self.data: Extras = kept if isinstance(kept, FrozenDict) else {}

    def finished(self) -> Mapping[str, Any]:
        """The block's data; empty for a block that is none."""
        return self.data


Piece = Span | Call | Opaque


class Pieces(list[Piece]):
    """The pieces of one choice in order; neighbouring fragments of one kind are one span."""

    __slots__ = ("_kind", "_tail")

    def __init__(self, pieces: Iterable[Piece] = ()) -> None:
        super().__init__(pieces)
        self._kind: SpanKind | None = None
        self._tail: list[str] = []

    def text(self, fragment: str) -> None:
        if fragment:
            if self._kind != "text":
                self.span("text")
            self._tail.append(fragment)

    def reasoning(self, fragment: str) -> None:
        if fragment:
            if self._kind != "reasoning":
                self.span("reasoning")
            self._tail.append(fragment)

    def span(self, kind: SpanKind) -> Span:
        """The last span if it is of that kind and still open, else a new one."""
        last = self[-1] if self else None
        if self._kind != kind or not isinstance(last, Span):
            last = Span(kind)
            super().append(last)
            self._kind, self._tail = kind, last.fragments
        return last

    def append(self, piece: Piece) -> None:
        """Put a piece at the end; no later fragment merges with it or with what stands before it."""
        super().append(piece)
        self._kind = None


def built(pieces: Iterable[Piece]) -> tuple[tuple[Part, ...], tuple[ToolCall, ...]]:
    """The parts and the tool calls; pieces that stayed empty are left out."""
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for piece in pieces:
        if isinstance(piece, Call):
            if not piece.is_empty:
                parts.append(ToolCallPart(len(calls)))
                calls.append(piece.tool_call())
        elif isinstance(piece, Span):
            if (span := piece.part()) is not None:
                parts.append(span)
        elif data := piece.finished():
            parts.append(OpaquePart(data))
    return tuple(parts), tuple(calls)


def is_usual(parts: tuple[Part, ...], calls: int) -> bool:
    """Whether a message has these parts anyway: reasoning, text, calls, and no vendor data at them."""
    usual: list[type[Part]] = [ReasoningPart, TextPart, *[ToolCallPart] * calls]
    at = 0
    for part in parts:
        if isinstance(part, (TextPart, ReasoningPart)) and part.extras:
            return False
        while at < len(usual) and usual[at] is not type(part):
            at += 1
        if at == len(usual):
            return False
        at += 1
    return True
