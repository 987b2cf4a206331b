"""Format `openai_chat`: streamed Chat Completions, of OpenAI and of all that speak likewise.

https://platform.openai.com/docs/api-reference/chat-streaming; the dialects (Azure, DeepSeek, OpenRouter,
vLLM, Groq, Mistral, Gemini's compatible endpoint) are known from their documentation and bug reports.
"""

from __future__ import annotations

from diarist.adapters.streaming.chunks import Fields, fields, listed, number, word
from diarist.adapters.streaming.core import Choice, StreamAggregate
from diarist.adapters.streaming.openai_chat_delta import ChatChoice
from diarist.adapters.streaming.pieces import note

# `obfuscation` is random padding against traffic analysis (stream_options.include_obfuscation).
_ENVELOPE = frozenset({"id", "object", "created", "model", "choices", "obfuscation"})
_TELLING = frozenset({"choices", "usage", "error", "model"})
_PLAIN_CHOICE = frozenset({"index", "delta", "finish_reason", "logprobs"})


class OpenAIChatAggregate(StreamAggregate):
    """Choices by index; complete with `[DONE]`, or when every choice seen has a finish reason."""

    def __init__(self) -> None:
        super().__init__()
        self._by_index: dict[int, ChatChoice] = {}

    def _take(self, chunk: Fields) -> bool:
        choices = chunk.get("choices")
        if choices is None:
            if (inner := _unwrapped(chunk)) is not None:
                return self._take(inner)
            if chunk.get("object") == "error":  # older vLLM: the chunk is the error
                self._fail(chunk)
                return True
        if self._model is None or self._id is None:
            self._identify(chunk.get("id"), chunk.get("model"))
        for entry in listed(choices):
            if (choice := fields(entry)) is not None:
                self._choice(choice, chunk)
        if not _ENVELOPE.issuperset(chunk):
            self._rest(chunk)
        return choices is not None or not _TELLING.isdisjoint(chunk)

    def _choice(self, entry: Fields, chunk: Fields) -> None:
        index = entry.get("index")
        if type(index) is not int:
            index = number(index) or 0
        choice = self._by_index.get(index)
        if choice is None:
            choice = self._by_index[index] = ChatChoice()
        if (delta := fields(entry.get("delta"))) is not None:
            choice.take(delta)
        if (reason := entry.get("finish_reason")) is not None:
            choice.finish(word(reason))
        if entry.get("logprobs") is not None or not _PLAIN_CHOICE.issuperset(entry):
            choice.rest(entry)
            if not chunk.get("usage"):  # Moonshot: usage inside the choice
                self._count(entry.get("usage"))
            if error := entry.get("error"):  # OpenRouter: beside a finish reason `error`
                self._fail(error)

    def _rest(self, chunk: Fields) -> None:
        extras = self._extras
        for key, value in chunk.items():
            if value is None or key in _ENVELOPE:
                continue
            if (
                type(value) is str and type(key) is str and key != "error"
            ):  # fingerprint and tier are in every chunk of OpenAI's
                extras[key] = value
            else:
                self._odd(key, value, chunk)

    def _odd(self, key: str, value: object, chunk: Fields) -> None:
        if key == "usage":
            self._count(value)
        elif key == "error":
            if value:
                self._fail(value)
        else:
            note(self._extras, key, value)
            if key == "x_groq" and chunk.get("usage") is None:
                self._count((fields(value) or {}).get("usage"))

    def _choices(self) -> list[Choice]:
        return [self._by_index[index].snapshot() for index in sorted(self._by_index)]

    def _is_complete(self) -> bool:
        reasons = [choice.choice.finish_reason for choice in self._by_index.values()]
        return self._end.done or (bool(reasons) and all(reasons))


def _unwrapped(chunk: Fields) -> Fields | None:
    """The chunk inside an event: Mistral's SDK puts it under `data`, OpenAI's stream helper under `chunk`."""
    for key in ("data", "chunk"):
        inner = fields(chunk.get(key))
        if inner is not None and "choices" in inner:
            return inner
    return None
