"""Format `bedrock_converse`: the events of Amazon Bedrock's ConverseStream.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html. There is no id
and no model in the stream; bytes are base64, as in its JSON.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from diarist.adapters.streaming.blocks import Blocks, HostedBlock
from diarist.adapters.streaming.chunks import Fields, fields, listed, plain, word
from diarist.adapters.streaming.core import Choice, StreamAggregate
from diarist.adapters.streaming.pieces import Call, Span, collect, note, note_rest

_KNOWN = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"}
)
_METADATA = frozenset({"usage"})
_STOP = frozenset({"stopReason"})
_CALL = frozenset({"toolUseId", "name", "input"})
_REASONING = frozenset({"text", "signature", "redactedContent"})


class BedrockConverseAggregate(StreamAggregate):
    """One choice, blocks by index; complete with `messageStop`."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks = Blocks()
        self._stopped = False
        self._finish_reason: str | None = None

    def _take(self, chunk: Fields) -> bool:
        known = False
        for member, value in chunk.items():
            body = fields(value)
            known = known or member in _KNOWN
            if body is None or type(member) is not str:
                if member == "error" and value:
                    self._fail(value)
            elif member == "contentBlockDelta":
                self._delta(body)
            elif member == "contentBlockStart":
                self._start(body)
            elif member == "contentBlockStop":
                self._blocks.stop(self._blocks.index(body.get("contentBlockIndex")))
            elif member == "messageStop":
                self._stop(body)
            elif member == "metadata":
                self._count(body.get("usage"))
                note_rest(self._extras, body, _METADATA)
            elif member.endswith("Exception"):
                self._fail({**body, "type": member})
            elif member == "error" and body:
                self._fail(body)
        return known or self._failed

    def _stop(self, body: Fields) -> None:
        self._stopped = True
        self._finish_reason = word(body.get("stopReason")) or self._finish_reason
        note_rest(self._extras, body, _STOP)

    def _start(self, body: Fields) -> None:
        """Only calls and hosted blocks have a start. A call whose `type` says so is run by Bedrock itself."""
        start = fields(body.get("start"))
        if not start:
            return
        index = self._blocks.index(body.get("contentBlockIndex"), start=True)
        use = fields(start.get("toolUse"))
        if use is None:
            kind = next(iter(start))
            self._blocks.put(index, _Streamed(kind, start[kind]))
        elif "server" in (word(use.get("type")) or ""):
            self._blocks.put(index, _HostedUse(use))
        else:
            opened = Call(word(use.get("toolUseId")), word(use.get("name")), blank="{}")
            call = self._blocks.started(index, opened)
            call.take(use.get("input"))
            note_rest(call.extras, use, _CALL)

    def _delta(self, body: Fields) -> None:
        delta = fields(body.get("delta"))
        if not delta:
            return
        index = self._blocks.index(body.get("contentBlockIndex"))
        if isinstance(text := delta.get("text"), str):
            self._blocks.span(index, "text").fragments.append(text)
        if (use := fields(delta.get("toolUse"))) is not None:
            self._blocks.input(index, use.get("input"))
        if reasoning := fields(delta.get("reasoningContent")):
            _reason(self._blocks.span(index, "reasoning"), reasoning)
        if citation := fields(delta.get("citation")):
            collect(self._blocks.span(index, "text").extras, "citations", [citation])
        for kind in ("toolResult", "image"):
            if (content := delta.get(kind)) is not None:
                self._hosted(index, kind, content)

    def _hosted(self, index: int, kind: str, content: object) -> None:
        """Content of a tool result or an image: collected in the block that its start opened."""
        known = self._blocks.newest(index)
        block = known if isinstance(known, _Streamed) else self._blocks.put(index, _Streamed(kind, {}))
        block.entries.append(plain(content))

    def _choices(self) -> list[Choice]:
        choice = Choice()
        choice.pieces = self._blocks.pieces()
        choice.finish_reason = self._finish_reason
        return [choice]

    def _is_complete(self) -> bool:
        return self._stopped


class _HostedUse(HostedBlock):
    """A hosted call: the block is `{"toolUse": …}`, its input streams into that."""

    __slots__ = ()

    def finished(self) -> Fields:
        return {"toolUse": super().finished()}


class _Streamed(HostedBlock):
    """A tool result or an image, `{kind: …}`: lists of content blocks are collected, fields are set."""

    __slots__ = ("entries", "kind")

    def __init__(self, kind: str, start: object) -> None:
        super().__init__(start)
        self.kind = kind
        self.entries: list[Any] = []

    def finished(self) -> Fields:
        data = dict(self.data)
        content = [block for entry in self.entries for block in listed(entry)]
        for entry in self.entries:
            data.update(fields(entry) or {})
        if content:
            data["content"] = [*listed(data.get("content")), *content]
        return {self.kind: data}


def _reason(span: Span, reasoning: Fields) -> None:
    if isinstance(text := reasoning.get("text"), str):
        span.fragments.append(text)
    if signature := word(reasoning.get("signature")):
        span.extras["signature"] = signature
    if redacted := plain(reasoning.get("redactedContent")):
        span.extras["redactedContent"] = _joined_bytes(span.extras.get("redactedContent"), redacted)
    for key, value in reasoning.items():
        if key not in _REASONING:
            note(span.extras, key, value)


def _joined_bytes(before: str | None, more: str) -> str:
    """Base64 of the bytes of two fragments."""
    if before is None:
        return more
    try:
        return base64.b64encode(base64.b64decode(before) + base64.b64decode(more)).decode("ascii")
    except (binascii.Error, ValueError):
        return before + more
