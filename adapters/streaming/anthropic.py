"""Format `anthropic`: the events of a streamed Message.

https://docs.anthropic.com/en/docs/build-with-claude/streaming. The events that the SDK's stream helper adds
(`text`, `input_json`, …) repeat the deltas and are left out.
"""

from __future__ import annotations

from diarist.adapters.streaming.blocks import Blocks, HostedBlock
from diarist.adapters.streaming.chunks import Fields, fields, listed, word
from diarist.adapters.streaming.core import Choice, StreamAggregate
from diarist.adapters.streaming.pieces import Call, Piece, Span, collect, note_rest

_MESSAGE = frozenset({"id", "type", "role", "model", "content", "stop_reason", "usage", "parsed_output"})
_EVENT = frozenset({"type", "message", "delta", "usage", "error", "index", "content_block"})
_DELTA = frozenset({"type", "stop_reason"})
_TEXT = frozenset({"type", "text", "citations", "parsed_output"})
_THINKING = frozenset({"type", "thinking", "signature"})
_CALL = frozenset({"type", "id", "name", "input"})
_QUIET = frozenset({"ping", "text", "thinking", "signature", "citation", "input_json", "compaction"})


class AnthropicAggregate(StreamAggregate):
    """One choice, blocks by index; complete with a stop reason or `message_stop`."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks = Blocks()
        self._initial = Blocks()
        self._has_initial = False
        self._finish_reason: str | None = None
        self._stopped = False

    def _take(self, chunk: Fields) -> bool:
        kind = chunk.get("type")
        if kind == "content_block_delta":
            return self._delta(chunk.get("index"), fields(chunk.get("delta")))
        if kind == "content_block_start":
            return self._start(self._blocks, chunk.get("index"), chunk.get("content_block"))
        if kind == "content_block_stop":
            self._blocks.stop(self._blocks.index(chunk.get("index")))
        elif kind == "message_start":
            self._message(fields(chunk.get("message")))
        elif kind == "message":  # a server that doesn't stream answers with the whole message
            self._message(chunk)
        elif kind == "message_delta":
            self._message_delta(chunk)
        elif kind == "message_stop":
            self._stopped = True
            note_rest(self._extras, chunk, _EVENT)
        elif kind == "error" or (kind is None and chunk.get("error")):
            self._fail(chunk.get("error"))
            note_rest(self._extras, chunk, _EVENT)
        else:
            return kind in _QUIET
        return True

    def _message(self, message: Fields | None) -> None:
        """A second message start resets nothing; content that comes with a start stands before all blocks."""
        if message is None:
            return
        self._identify(message.get("id"), message.get("model"))
        self._count(message.get("usage"))
        self._finish_reason = word(message.get("stop_reason")) or self._finish_reason
        note_rest(self._extras, message, _MESSAGE)
        content = listed(message.get("content"))
        if content and not self._has_initial:
            self._has_initial = True
            for index, entry in enumerate(content):
                self._start(self._initial, index, entry)

    def _start(self, blocks: Blocks, at: object, entry: object) -> bool:
        if (block := fields(entry)) is None:
            return False
        index, kind = blocks.index(at, start=True), block.get("type")
        if kind == "text":
            span = blocks.started(index, Span("text"))
            _append(span, block.get("text"))
            collect(span.extras, "citations", listed(block.get("citations")))
            note_rest(span.extras, block, _TEXT)
        elif kind == "thinking":
            span = blocks.started(index, Span("reasoning"))
            _append(span, block.get("thinking"))
            _sign(span, block.get("signature"))
            note_rest(span.extras, block, _THINKING)
        elif kind == "tool_use":
            call = blocks.started(index, Call(word(block.get("id")), word(block.get("name")), blank="{}"))
            call.take(block.get("input"))
            note_rest(call.extras, block, _CALL)
        else:
            blocks.put(index, HostedBlock(entry))
        return True

    def _delta(self, at: object, delta: Fields | None) -> bool:
        if delta is None:
            return False
        kind = delta.get("type")
        index = at if type(at) is int else self._blocks.index(at)
        if kind == "text_delta":
            _append(self._blocks.span(index, "text"), delta.get("text"))
        elif kind == "input_json_delta":
            self._blocks.input(index, delta.get("partial_json"))
        elif kind == "thinking_delta":
            _append(self._blocks.span(index, "reasoning"), delta.get("thinking"))
        elif kind == "signature_delta":
            _sign(self._blocks.span(index, "reasoning"), delta.get("signature"))
        elif kind == "citations_delta":
            collect(self._blocks.span(index, "text").extras, "citations", [delta.get("citation")])
        elif kind == "compaction_delta":
            self._compaction(index, delta)
        else:
            return False
        return True

    def _compaction(self, index: int, delta: Fields) -> None:
        known: Piece | None = self._blocks.newest(index)
        block = known if isinstance(known, HostedBlock) else None
        if block is None:
            block = self._blocks.put(index, HostedBlock({"type": "compaction"}))
        block.update({key: value for key, value in delta.items() if key != "type"})

    def _message_delta(self, chunk: Fields) -> None:
        self._count(chunk.get("usage"))
        note_rest(self._extras, chunk, _EVENT)
        if (delta := fields(chunk.get("delta"))) is not None:
            self._finish_reason = word(delta.get("stop_reason")) or self._finish_reason
            note_rest(self._extras, delta, _DELTA)

    def _choices(self) -> list[Choice]:
        choice = Choice()
        choice.pieces = self._initial.pieces()
        choice.pieces.extend(self._blocks.pieces())
        choice.finish_reason = self._finish_reason
        return [choice]

    def _is_complete(self) -> bool:
        return self._stopped or self._finish_reason is not None


def _append(span: Span, fragment: object) -> None:
    if isinstance(fragment, str):
        span.fragments.append(fragment)


def _sign(span: Span, signature: object) -> None:
    if signed := word(signature):
        span.extras["signature"] = signed
