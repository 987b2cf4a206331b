"""Format `ollama`: the chat interface of Ollama (and `response` of its generate interface), line by line.

https://docs.ollama.com/api/chat. Counts are tokens and make the usage; durations are nanoseconds and extras.
"""

from __future__ import annotations

from typing import Any

from diarist.adapters.streaming.chunks import Fields, fields, listed, word
from diarist.adapters.streaming.core import Choice, StreamAggregate
from diarist.adapters.streaming.pieces import Call, collect, note, note_rest

_KNOWN = frozenset(
    {"model", "created_at", "message", "response", "thinking", "done", "done_reason", "error", "logprobs"}
)
_PLAIN = _KNOWN - {"error", "logprobs"}
_MESSAGE = frozenset({"role", "content", "thinking", "tool_calls"})
_CALL = frozenset({"id", "type", "function"})
_FUNCTION = frozenset({"name", "arguments", "index"})


class OllamaAggregate(StreamAggregate):
    """One choice; complete when a line says `done`."""

    def __init__(self) -> None:
        super().__init__()
        self._choice = Choice()
        self._done = False

    def _take(self, chunk: Fields) -> bool:
        self._identify(None, chunk.get("model"))
        message = fields(chunk.get("message"))
        if message is not None:
            self._message(message)
        elif isinstance(chunk.get("response"), str):
            self._say(chunk.get("thinking"), chunk["response"])
        if not chunk.keys() <= _PLAIN or chunk.get("done") is True:
            self._rest(chunk)
        return not _KNOWN.isdisjoint(chunk)

    def _message(self, message: Fields) -> None:
        self._say(message.get("thinking"), message.get("content"))
        for entry in listed(message.get("tool_calls")):
            self._call(fields(entry))
        if not message.keys() <= _MESSAGE:
            note_rest(self._choice.extras, message, _MESSAGE)

    def _say(self, thinking: object, content: object) -> None:
        if isinstance(thinking, str):
            self._choice.pieces.reasoning(thinking)
        if isinstance(content, str):
            self._choice.pieces.text(content)

    def _call(self, entry: Fields | None) -> None:
        """Every entry is a whole call; `index` counts anew in each line and tells nothing (ollama#7963)."""
        function = fields(entry.get("function")) if entry is not None else None
        if entry is None or function is None:
            return
        call = Call(word(entry.get("id")), word(function.get("name")), blank="{}")
        call.take(function.get("arguments"))
        note_rest(call.extras, entry, _CALL)
        more: dict[str, Any] = {}
        note_rest(more, function, _FUNCTION)
        note(call.extras, "function", more or None)
        self._choice.pieces.append(call)

    def _rest(self, chunk: Fields) -> None:
        if error := chunk.get("error"):
            self._fail(error)
        if chunk.get("done") is True:
            self._done = True
            self._choice.finish_reason = word(chunk.get("done_reason")) or self._choice.finish_reason
        for key, value in chunk.items():
            if type(key) is str and key.endswith("_count"):
                self._count({key: value})
            elif key == "logprobs":
                collect(self._extras, key, listed(value))
            elif key not in _KNOWN:
                note(self._extras, key, value)

    def _choices(self) -> list[Choice]:
        return [self._choice]

    def _is_complete(self) -> bool:
        return self._done
