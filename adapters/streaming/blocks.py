"""Content blocks by index, as Anthropic and Bedrock stream them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from diarist.adapters.streaming.chunks import number, plain
from diarist.adapters.streaming.pieces import Call, Opaque, Piece, Pieces, Span, SpanKind, joined

P = TypeVar("P", bound=Piece)


class HostedBlock(Opaque):
    """A block that is kept whole and may be streamed: a call that the provider runs itself.

    `input` is the JSON of its fragments; while that is unfinished, their text.
    """

    __slots__ = ("fragments",)

    def __init__(self, data: object) -> None:
        super().__init__(data)
        self.fragments: list[str] = []

    def update(self, data: Mapping[str, Any]) -> None:
        """Put fields over those of the start (a compaction comes whole in its only delta)."""
        kept = {key: plain(value) for key, value in data.items() if value is not None}
        self.data = {**self.data, **kept}

    def finished(self) -> Mapping[str, Any]:
        text = joined(self.fragments)
        if not text:
            return self.data
        try:
            return {**self.data, "input": plain(json.loads(text))}
        except (ValueError, RecursionError):
            return {**self.data, "input": text}


class Blocks:
    """The blocks of a message. They stand in the order of their index; at one index, as they came.

    Gateways repeat an index for another block, leave out starts and stops, or send a delta that doesn't fit
    the open block: then a fitting block is opened beside it, so that nothing lands in a wrong one.
    """

    def __init__(self) -> None:
        self._all: list[tuple[int, Piece]] = []
        self._newest: dict[int, Piece] = {}
        self._stopped: set[int] = set()
        self._last = -1

    def pieces(self) -> Pieces:
        return Pieces(piece for _, piece in sorted(self._all, key=lambda entry: entry[0]))

    def newest(self, index: int) -> Piece | None:
        return self._newest.get(index)

    def index(self, value: object, *, start: bool = False) -> int:
        """A block's index; without one a start is the next block, anything else speaks of the last."""
        found = number(value)
        if found is None:
            return self._last + 1 if start else max(self._last, 0)
        return found

    def put(self, index: int, piece: P) -> P:
        """Open a block: the newest of its index from now on."""
        self._all.append((index, piece))
        self._newest[index] = piece
        self._stopped.discard(index)
        self._last = index
        return piece

    def stop(self, index: int) -> None:
        self._stopped.add(index)

    def started(self, index: int, piece: P) -> P:
        """A block's start event: its block if a delta or an earlier start opened it, else a new one."""
        known = self._newest.get(index)
        if known is None or index in self._stopped or type(known) is not type(piece):
            return self.put(index, piece)
        if isinstance(known, Span) and isinstance(piece, Span) and known.kind == piece.kind:
            return known
        if isinstance(known, Call) and isinstance(piece, Call) and known.id in (None, piece.id):
            known.identify(piece.id, piece.name)
            return known
        return self.put(index, piece)

    def span(self, index: int, kind: SpanKind) -> Span:
        """The open span of that kind at an index, else a new one."""
        known = self._newest.get(index)
        if isinstance(known, Span) and known.kind == kind:
            return known
        return self.put(index, Span(kind))

    def input(self, index: int, fragment: object) -> None:
        """A fragment of a call's input, or of a hosted call's."""
        known = self._newest.get(index)
        if isinstance(known, HostedBlock):
            if isinstance(fragment, str):
                known.fragments.append(fragment)
            return
        call = known if isinstance(known, Call) else self.put(index, Call(blank="{}"))
        call.take(fragment)
