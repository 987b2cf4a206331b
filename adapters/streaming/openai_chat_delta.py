"""One choice of a Chat Completions stream: what its deltas add."""

from __future__ import annotations

from typing import Any

from diarist.adapters.streaming.chunks import Fields, fields, listed, word
from diarist.adapters.streaming.core import Choice
from diarist.adapters.streaming.openai_chat_calls import CallBook
from diarist.adapters.streaming.pieces import Opaque, collect, note, note_rest
from diarist.adapters.streaming.reasoning_details import DetailBook, text_of

_CHOICE = frozenset({"index", "delta", "finish_reason", "logprobs", "usage", "error"})
_DELTA = frozenset(
    {"role", "content", "refusal", "reasoning", "reasoning_content", "reasoning_details"}
    | {"tool_calls", "function_call", "annotations"}
)
_TEXT_PART = frozenset({"type", "text"})
_THINKING_PART = frozenset({"type", "thinking", "closed"})
_CALLS = ("tool_calls", "function_call")


class ChatChoice:
    """Reads deltas into a `Choice`. Within one delta the order is reasoning, content, refusal, calls."""

    __slots__ = ("_calls", "_details", "_logprobs", "choice")

    def __init__(self) -> None:
        self.choice = Choice()
        self._calls = CallBook(self.choice.pieces)
        self._details = DetailBook()
        self._logprobs: dict[str, Any] = {}

    def take(self, delta: Fields) -> None:
        text: str | None = None
        for key, value in delta.items():
            if value is None or key == "role":
                continue
            if key != "content" or type(value) is not str:
                return self._take_all(delta)
            text = value
        if text:
            self.choice.pieces.text(text)
        return None

    def _take_all(self, delta: Fields) -> None:
        """A delta that has more than text."""
        content = delta.get("content")
        if reasoning := self._reasoning(delta):
            self.choice.pieces.reasoning(reasoning)
        if isinstance(content, str):
            self.choice.pieces.text(content)
        elif content is not None:
            self._content_list(content)
        if isinstance(refusal := delta.get("refusal"), str):
            self.choice.refusal.append(refusal)
        if (calls := delta.get("tool_calls")) is not None:
            for entry in listed(calls):
                if (found := fields(entry)) is not None:
                    self._calls.take(found)
        if not _DELTA.issuperset(delta) or delta.get("annotations") or delta.get("function_call"):
            self._rest(delta)

    def finish(self, reason: str | None) -> None:
        """The last reason counts, but `stop` never replaces a call's (ChatMock#114, agent-framework#2740)."""
        if reason and not (reason == "stop" and self.choice.finish_reason in _CALLS):
            self.choice.finish_reason = reason

    def rest(self, entry: Fields) -> None:
        """What a choice has beside its delta: log probabilities are collected, the rest is vendor data."""
        note_rest(self.choice.extras, entry, _CHOICE)
        if logprobs := fields(entry.get("logprobs")):
            for key, value in logprobs.items():
                if value is not None:
                    collect(self._logprobs, key, listed(value))

    def snapshot(self) -> Choice:
        """The choice so far, with what was collected for it."""
        choice = Choice()
        choice.pieces, choice.refusal = self.choice.pieces, self.choice.refusal
        choice.finish_reason = self.choice.finish_reason
        choice.extras = dict(self.choice.extras)
        if self._logprobs:
            choice.extras["logprobs"] = self._logprobs
        if details := self._details.built():
            choice.extras["reasoning_details"] = details
        return choice

    def _reasoning(self, delta: Fields) -> str:
        """One field per delta: vLLM and OpenRouter send the same text in two of them."""
        details = listed(delta.get("reasoning_details"))
        text = word(delta.get("reasoning_content")) or word(delta.get("reasoning"))
        return self._details.take(details, text) if details else text or ""

    def _content_list(self, content: object) -> None:
        """Content as a list of parts (Mistral's reasoning models)."""
        for entry in listed(content):
            if isinstance(entry, str):
                self.choice.pieces.text(entry)
            elif (part := fields(entry)) is not None:
                self._content_part(part, entry)

    def _content_part(self, part: Fields, entry: object) -> None:
        pieces = self.choice.pieces
        kind = word(part.get("type"))
        if kind in ("text", None) and isinstance(text := part.get("text"), str):
            pieces.text(text)
            if not _TEXT_PART.issuperset(part):
                note_rest(pieces.span("text").extras, part, _TEXT_PART)
        elif kind == "thinking":
            pieces.reasoning(text_of(part.get("thinking")))
            if not _THINKING_PART.issuperset(part):
                note_rest(pieces.span("reasoning").extras, part, _THINKING_PART)
        elif kind == "refusal" and isinstance(refusal := part.get("refusal"), str):
            self.choice.refusal.append(refusal)
        elif kind is not None:
            pieces.append(Opaque(entry))

    def _rest(self, delta: Fields) -> None:
        if legacy := fields(delta.get("function_call")):
            self._calls.take_legacy(legacy)
        collect(self.choice.extras, "annotations", listed(delta.get("annotations")))
        for key, value in delta.items():
            if key not in _DELTA:
                note(self.choice.extras, key, value)
