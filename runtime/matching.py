"""Which messages may be handed to a model: tool calls with their results, and results with their calls.

The rules are those of the strictest providers. OpenAI: "An assistant message with 'tool_calls' must be followed
by tool messages responding to each 'tool_call_id'", and "messages with role 'tool' must be a response to a
preceding message with 'tool_calls'". Anthropic: "Each `tool_use` block must have a corresponding `tool_result`
block in the next message", and the other way round. So a result counts only if nothing but other results stands
between it and its call; a result that comes after the next user or assistant message answers nothing, and its
call stays unanswered. System messages don't separate: whoever hands messages to a model puts them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage
from diarist.runtime.parts import FilePart, ImagePart, OpaquePart, Part, ToolCall, ToolCallPart


@dataclass(slots=True)
class Round:
    """An assistant message with tool calls, and which of the messages right after it answer them."""

    place: int
    """Of the assistant message in the list."""
    calls: tuple[ToolCall, ...]
    answers: dict[int, int] = field(default_factory=dict[int, int])
    """Position of a call in `calls`, to the place of its result in the list."""
    running: bool = False
    """Nothing but results follows, so that more may come."""

    @property
    def is_complete(self) -> bool:
        return len(self.answers) == len(self.calls)


def rounds(messages: Sequence[Message]) -> list[Round]:
    """All rounds of tool calls, in order.

    A result belongs to the first unanswered call of its id in the round that it follows: ids may come again in
    later rounds (some vendors count from 0 each time), even within one. Results without an id (Ollama, the legacy
    `function_call`) answer calls without an id: one of the same name if there is one, else in order.
    """
    found: list[Round] = []
    current: Round | None = None
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if current is not None:
                _answer(current, message, place)
        elif isinstance(message, AssistantMessage):
            calls = message.tool_calls if message.may_call() else ()
            current = Round(place, calls) if calls else None
            if current is not None:
                found.append(current)
        elif not isinstance(message, SystemMessage):
            current = None
    if current is not None:
        current.running = True
    return found


def _answer(current: Round, result: ToolMessage, place: int) -> None:
    open_calls = [
        position
        for position, call in enumerate(current.calls)
        if position not in current.answers and call.id == result.tool_call_id
    ]
    if result.tool_call_id is None and result.name is not None:
        named = [position for position in open_calls if current.calls[position].name == result.name]
        open_calls = named or open_calls
    if open_calls:
        current.answers[open_calls[0]] = place


def matched(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages without results that answer no call, and without calls that have no result.

    Of two results for one call the first stays. The last round, while nothing but results follows it, keeps its
    calls and the results so far. An assistant message that loses calls is a changed copy, and is left out if
    nothing is left of it for a model to read; all other messages are the very same objects.
    """
    found = rounds(messages)
    answering = {place for item in found for place in item.answers.values()}
    broken = {item.place: item for item in found if not (item.running or item.is_complete)}
    if not broken and all(
        place in answering for place, message in enumerate(messages) if isinstance(message, ToolMessage)
    ):
        return tuple(messages)
    shown: list[Message] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if place in answering:
                shown.append(message)
        elif place in broken and isinstance(message, AssistantMessage):
            rest = _with_calls(message, sorted(broken[place].answers))
            if rest is not None:
                shown.append(rest)
        else:
            shown.append(message)
    return tuple(shown)


def _with_calls(message: AssistantMessage, kept: Sequence[int]) -> AssistantMessage | None:
    """A copy with only the calls at these positions; None if it would say nothing."""
    if not (kept or message.text.strip() or message.refusal or any(_says_something(part) for part in message.parts)):
        return None
    moved = {position: place for place, position in enumerate(kept)}
    layout: list[Part] = []
    for part in message.layout:
        if not isinstance(part, ToolCallPart):
            layout.append(part)
        elif part.call in moved:
            layout.append(ToolCallPart(moved[part.call]))
    return message.replace(tool_calls=[message.tool_calls[position] for position in kept], layout=layout)


def _says_something(part: Part) -> bool:
    """Whether a part beside text, reasoning and calls is left; hidden thinking means nothing without the call."""
    if isinstance(part, OpaquePart):
        return part.data.get("type") not in ("thinking", "redacted_thinking")
    return isinstance(part, ImagePart | FilePart)


def for_model(messages: Sequence[Message]) -> tuple[Message, ...]:
    """`matched`, with the system messages first; within both groups the order is kept."""
    return systems_first(matched(messages))


def systems_first(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The same messages with the system messages first; the same tuple if they are."""
    first = [message for message in messages if isinstance(message, SystemMessage)]
    if all(isinstance(message, SystemMessage) for message in messages[: len(first)]):
        return messages
    return (*first, *(message for message in messages if not isinstance(message, SystemMessage)))
