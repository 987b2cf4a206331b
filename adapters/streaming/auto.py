"""Format `auto`: recognises a stream by its first telling chunk."""

from __future__ import annotations

from collections.abc import Callable

from diarist.adapters.chat import ChatChunk
from diarist.adapters.streaming.anthropic import AnthropicAggregate
from diarist.adapters.streaming.bedrock_converse import BedrockConverseAggregate
from diarist.adapters.streaming.chat import ChatAggregate
from diarist.adapters.streaming.chunks import Fields, fields, word
from diarist.adapters.streaming.core import Error, StreamAggregate
from diarist.adapters.streaming.decoding import DONE
from diarist.adapters.streaming.gemini import GeminiAggregate
from diarist.adapters.streaming.ollama import OllamaAggregate
from diarist.adapters.streaming.openai_chat import OpenAIChatAggregate
from diarist.adapters.streaming.openai_responses import OpenAIResponsesAggregate
from diarist.adapters.streaming.text import TextAggregate
from diarist.runtime.aggregates import Aggregate
from diarist.runtime.messages import AssistantMessage

FORMATS: dict[str, Callable[[], StreamAggregate]] = {
    "text": TextAggregate,
    "openai_chat": OpenAIChatAggregate,
    "openai_responses": OpenAIResponsesAggregate,
    "anthropic": AnthropicAggregate,
    "gemini": GeminiAggregate,
    "ollama": OllamaAggregate,
    "bedrock_converse": BedrockConverseAggregate,
}

MAX_HELD = 1_000
"""Chunks before the first telling one that are kept; of a stream that never tells, the first ones."""

_ANTHROPIC = frozenset(
    {"message_start", "message_delta", "message_stop", "message"}
    | {"content_block_start", "content_block_delta", "content_block_stop"}
)
_BEDROCK = frozenset({"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop"})
_GEMINI = frozenset(
    {"candidates", "usageMetadata", "usage_metadata", "promptFeedback", "prompt_feedback"}
    | {"modelVersion", "model_version", "responseId", "response_id"}
)


def recognised(chunk: object) -> str | None:
    """The format that a chunk tells, or None: a ping, a heartbeat, a bare error, nonsense."""
    if isinstance(chunk, (str, bytes, bytearray)):
        return None if chunk in (DONE, "", b"") else "text"
    found = fields(chunk)
    if not found:
        return None
    kind = word(found.get("type"))
    if kind is not None and (told := _by_type(kind, found)) is not None:
        return told
    return _by_keys(found)


def _by_type(kind: str, found: Fields) -> str | None:
    if kind.startswith("response.") or (kind == "error" and "error" not in found):
        return "openai_responses"
    return "anthropic" if kind in _ANTHROPIC else None


def _by_keys(found: Fields) -> str | None:
    told = word(found.get("object")) or ""
    if told.startswith("chat.completion") or "choices" in found:
        return "openai_chat"
    if any("choices" in (fields(found.get(key)) or ()) for key in ("data", "chunk")):
        return "openai_chat"
    if told == "response":
        return "openai_responses"
    if not _BEDROCK.isdisjoint(found) or any(str(key).endswith("Exception") for key in found):
        return "bedrock_converse"
    if not _GEMINI.isdisjoint(found):
        return "gemini"
    return "ollama" if "done" in found and ("model" in found or "message" in found) else None


class AutoAggregate:
    """Holds chunks until one tells the format, then gives all of them to that format's aggregate.

    Beside the vendors' formats it knows `chat`: the chunks of our own chat clients.
    """

    def __init__(self) -> None:
        self.format: str | None = None
        """The format, once it is known."""
        self._aggregate: Aggregate | None = None
        self._held: list[object] = []
        self._dropped = 0

    @property
    def seen(self) -> int:
        return self._current().seen + self._dropped

    @property
    def skipped(self) -> int:
        return self._current().skipped + self._dropped

    def add(self, chunk: object) -> None:
        """Take the next chunk. Never raises."""
        if self._aggregate is not None:
            self._aggregate.add(chunk)
            return
        if isinstance(chunk, ChatChunk):
            self.format = "chat"
            self._aggregate = ChatAggregate(AutoAggregate())
            self._aggregate.add(chunk)
            return
        try:
            self.format = recognised(chunk)
        except Exception:
            self.format = None  # objects may raise anything when read: nonsense, like anything unknown
        if self.format is None:
            self._hold(chunk)
            return
        self._aggregate = self._fed(FORMATS[self.format]())
        self._held.clear()
        self._aggregate.add(chunk)

    def message(self, *, cancelled: bool = False, error: Error = None) -> AssistantMessage:
        """As the recognised format's; of a stream that told none, what its errors say."""
        return self._current().message(cancelled=cancelled, error=error)

    def messages(self, *, cancelled: bool = False, error: Error = None) -> tuple[AssistantMessage, ...]:
        """One message per choice, by index."""
        return self._current().messages(cancelled=cancelled, error=error)

    def _hold(self, chunk: object) -> None:
        if len(self._held) < MAX_HELD:
            self._held.append(chunk)
        else:
            self._dropped += 1

    def _fed(self, aggregate: StreamAggregate) -> StreamAggregate:
        for chunk in self._held:
            aggregate.add(chunk)
        return aggregate

    def _current(self) -> Aggregate:
        """The format's aggregate. Before one is known, a guess made anew: errors look alike in most."""
        if self._aggregate is not None:
            return self._aggregate
        return self._fed(OpenAIChatAggregate())
