"""What goes through a chain of advisors: a request, and a response or a stream of chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from diarist.runtime.intake import Given
from diarist.runtime.messages import AssistantMessage, Message
from diarist.runtime.values import EMPTY


def _frozen(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(mapping))  # a copy also of one that is read-only: its owner may change what it shows


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked. Frozen: an advisor passes a changed copy on (`dataclasses.replace`).

    `messages`: ours, or dicts in the OpenAI chat format; kept as a tuple of ours. `context` is for the advisors and
    goes with the request and, in the response, back; no model sees it. `options` are for the model (`temperature`,
    `tools`, …): keyword arguments of its vendor's call. Both are read-only copies.
    """

    messages: Sequence[Message]
    context: Mapping[str, Any] = EMPTY
    options: Mapping[str, Any] = EMPTY

    def __post_init__(self) -> None:
        given = cast("Sequence[Given]", self.messages)
        taken = tuple(item if isinstance(item, Message) else Message.from_dict(item) for item in given)
        object.__setattr__(self, "messages", taken)
        object.__setattr__(self, "context", _frozen(self.context))
        object.__setattr__(self, "options", _frozen(self.options))


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """What came of a request.

    `steps`: what was said between the request and the answer, rounds of tool calls: assistant messages with calls,
    and their results. `context`: the request's, and what advisors added.
    """

    message: AssistantMessage
    context: Mapping[str, Any] = EMPTY
    steps: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "context", _frozen(self.context))

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.message.text


@dataclass(frozen=True, slots=True)
class ChatChunk:
    """A piece of a streamed answer.

    `text`: what it adds to the text, "" for anything else. `raw`: the vendor's own chunk, with all that is in it;
    None for a chunk that an advisor made. An advisor that changes the text passes `replace(chunk, text=…)` on: then
    the changed text is what is remembered.

    `message`: a whole message between two answers of the model, the result of a tool. `ends_round`: the model's
    answer is over, though the stream goes on, with the work of tools and then another answer; a chunk with a message
    ends a round in any case. `context`: what an advisor adds to the stream's context. A chunk with no text, `raw` or
    `message` is for the advisors: it does not reach the caller.
    """

    text: str = ""
    raw: Any = None
    message: Message | None = None
    ends_round: bool = False
    context: Mapping[str, Any] = EMPTY
    original: str | None = field(default=None, repr=False, compare=False)
    """The text that `raw` stands for; a different `text` was edited. Filled in."""

    def __post_init__(self) -> None:
        if self.original is None:
            object.__setattr__(self, "original", self.text)

    @property
    def is_edited(self) -> bool:
        """Whether `text` says something else than `raw`."""
        return self.text != self.original or (self.raw is None and self.text != "")

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing in it for the caller."""
        return self.raw is None and self.message is None and not self.text
