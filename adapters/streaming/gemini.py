"""Format `gemini`: `streamGenerateContent` of the Gemini API and of Vertex AI.

https://ai.google.dev/api/generate-content. Names are camelCase as in the JSON; objects and dumps of the SDKs
in snake_case are read alike. Signatures stay on the part they came with:
https://ai.google.dev/gemini-api/docs/thought-signatures.
"""

from __future__ import annotations

import re

from diarist.adapters.streaming.chunks import Fields, fields, listed, number, plain, word
from diarist.adapters.streaming.core import Choice, StreamAggregate
from diarist.adapters.streaming.pieces import Call, Extras, Opaque, Span, SpanKind, note, note_rest

_TOP = frozenset(
    {"candidates", "usageMetadata", "modelVersion", "responseId", "error"}
    | {"sdkHttpResponse", "automaticFunctionCallingHistory", "parsed"}  # made by the SDK, not sent
)
_CANDIDATE = frozenset({"content", "finishReason", "index"})
_SPAN = frozenset({"text", "thought"})
_SIGNED = _SPAN | {"thoughtSignature"}
_CALL_PART = _SPAN | {"functionCall"}
_FUNCTION = frozenset({"id", "name", "args"})
_DATA = frozenset(
    {"inlineData", "fileData", "executableCode", "codeExecutionResult", "functionResponse"}
    | {"toolCall", "toolResponse"}
)
_EMPTY: tuple[object, ...] = (None, "", [], {})

_NAMES = (
    _TOP
    | _CANDIDATE
    | _SIGNED
    | _CALL_PART
    | _DATA
    | {"promptFeedback", "blockReason", "createTime", "safetyRatings", "citationMetadata", "tokenCount"}
    | {"groundingMetadata", "avgLogprobs", "logprobsResult", "finishMessage", "urlContextMetadata"}
    | {"promptTokenCount", "candidatesTokenCount", "totalTokenCount", "thoughtsTokenCount", "trafficType"}
    | {"cachedContentTokenCount", "toolUsePromptTokenCount", "promptTokensDetails", "cacheTokensDetails"}
    | {"candidatesTokensDetails", "toolUsePromptTokensDetails"}
)
_SNAKE = {
    snake: name
    for name in _NAMES
    if (snake := re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name)) != name
}


class GeminiAggregate(StreamAggregate):
    """Candidates by index; complete when each has a finish reason, or when the prompt was blocked."""

    def __init__(self) -> None:
        super().__init__()
        self._by_index: dict[int, Choice] = {}
        self._block_reason: str | None = None

    def _take(self, chunk: Fields) -> bool:
        chunk = _camel(chunk)
        self._identify(chunk.get("responseId"), chunk.get("modelVersion"))
        for entry in listed(chunk.get("candidates")):
            if (candidate := fields(entry)) is not None:
                self._candidate(_camel(candidate))
        if usage := fields(chunk.get("usageMetadata")):
            self._count(_camel(usage))
        if error := chunk.get("error"):
            self._fail(error)
        if feedback := fields(chunk.get("promptFeedback")):
            self._block_reason = _reason(_camel(feedback).get("blockReason")) or self._block_reason
        if not chunk.keys() <= _TOP:
            _note_filled(self._extras, chunk, _TOP)
        return "promptFeedback" in chunk or not _TOP.isdisjoint(chunk)

    def _candidate(self, candidate: Fields) -> None:
        index = number(candidate.get("index")) or 0
        choice = self._by_index.get(index)
        if choice is None:
            choice = self._by_index[index] = Choice()
        if content := fields(candidate.get("content")):
            for entry in listed(content.get("parts")):
                if (part := fields(entry)) is not None:
                    _take_part(choice, _camel(part), entry)
        choice.finish_reason = _reason(candidate.get("finishReason")) or choice.finish_reason
        if not candidate.keys() <= _CANDIDATE:
            _note_filled(choice.extras, candidate, _CANDIDATE)

    def _choices(self) -> list[Choice]:
        choices = [self._by_index[index] for index in sorted(self._by_index)]
        if self._block_reason is not None:
            choices = choices or [Choice()]
            for choice in choices:
                choice.finish_reason = choice.finish_reason or self._block_reason
        return choices

    def _is_complete(self) -> bool:
        reasons = [choice.finish_reason for choice in self._by_index.values()]
        return self._block_reason is not None or (bool(reasons) and all(reasons))


def _take_part(choice: Choice, part: Fields, entry: object) -> None:
    """One part: a call, text or thought with whatever else stands beside it, or a block of another kind."""
    text = part.get("text")
    if len(part) == 1 and isinstance(text, str):
        choice.pieces.text(text)
    elif (function := fields(part.get("functionCall"))) is not None:
        _take_call(choice, part, function)
    elif all(part.get(key) is None for key in _DATA) and (isinstance(text, str) or part.keys() <= _SIGNED):
        _take_span(choice, part)
    elif any(value is not None for value in part.values()):
        choice.pieces.append(Opaque(part if isinstance(entry, dict) else entry))


def _take_span(choice: Choice, part: Fields) -> None:
    """Text or thought. Neighbours of one kind merge; a signed part never does, and is kept when empty."""
    kind: SpanKind = "reasoning" if part.get("thought") is True else "text"
    text = part.get("text")
    extras: Extras = {}
    _note_filled(extras, part, _SPAN)
    if extras:
        span = Span(kind)
        span.extras = extras
        choice.pieces.append(span)
        span.fragments.append(text if isinstance(text, str) else "")
    elif isinstance(text, str):
        (choice.pieces.text if kind == "text" else choice.pieces.reasoning)(text)


def _take_call(choice: Choice, part: Fields, function: Fields) -> None:
    """Each part is a whole call; without id, as the Gemini API sends it, the id stays null."""
    call = Call(word(function.get("id")), word(function.get("name")), blank="{}")
    call.take(function.get("args"))
    _note_filled(call.extras, part, _CALL_PART)
    more: Extras = {}
    note_rest(more, function, _FUNCTION)
    note(call.extras, "function", more or None)
    choice.pieces.append(call)


def _reason(value: object) -> str | None:
    """A finish or block reason; UNSPECIFIED is none."""
    reason = word(value)
    return None if reason is None or reason.endswith("UNSPECIFIED") else reason


def _note_filled(extras: Extras, source: Fields, known: frozenset[str]) -> None:
    """Keep vendor data that is not empty: later chunks repeat the fields as empty lists and objects."""
    for key, value in source.items():
        if key not in known and type(key) is str and (kept := plain(value)) not in _EMPTY:
            extras[key] = kept


def _camel(found: Fields) -> Fields:
    """Known fields under their JSON names; a dump in snake_case also has the fields without a value."""
    if _SNAKE.keys().isdisjoint(found):
        return found
    return {_SNAKE.get(key, key): value for key, value in found.items() if value is not None}
