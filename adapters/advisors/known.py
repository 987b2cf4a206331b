"""Which messages of a request a conversation knows already. Pure.

Clients differ in what they send: only the new message, the last few, or the whole history each time, often without
the rounds of tool calls. What is known must come to the model once and be stored once.
"""

from __future__ import annotations

from collections.abc import Sequence

from diarist.runtime.matching import matched
from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage


def new_messages(view: Sequence[Message], given: Sequence[Message]) -> tuple[Message, ...]:
    """Those of `given` that a conversation with this view does not know.

    The whole view anywhere in `given`, with what stands before it (the window has dropped that), or else the view's
    end at the beginning of `given`, is known. Messages are compared by role, text and calls. So a question that has
    no answer yet and is sent again is one question. A system message is known if an equal one is in view.
    """
    systems = [message for message in view if isinstance(message, SystemMessage)]
    fresh = [
        message
        for message in given
        if isinstance(message, SystemMessage) and not any(message.same_content(other) for other in systems)
    ]
    said = [message for message in given if not isinstance(message, SystemMessage)]
    known = [message for message in matched(view) if not isinstance(message, SystemMessage)]
    if not any(_is_tool_traffic(message) for message in said):
        known = [message for message in known if not _is_tool_traffic(message) or message.text.strip()]
        known = [message for message in known if not isinstance(message, ToolMessage)]
    wanted = {id(message) for message in (*fresh, *said[_known_end(known, said) :])}
    return tuple(message for message in given if id(message) in wanted)


def _is_tool_traffic(message: Message) -> bool:
    return isinstance(message, ToolMessage) or (isinstance(message, AssistantMessage) and bool(message.tool_calls))


def _known_end(known: Sequence[Message], said: Sequence[Message]) -> int:
    """How much of `said` is known."""
    size = len(known)
    if size == 0:
        return 0
    for start in range(len(said) - size, -1, -1):
        if _are_same(known, said[start : start + size]):
            return start + size
    for length in range(min(size, len(said)), 0, -1):
        if _are_same(known[-length:], said[:length]):
            return length
    return 0


def _are_same(some: Sequence[Message], others: Sequence[Message]) -> bool:
    return all(_is_same(one, other) for one, other in zip(some, others, strict=True))


def _is_same(one: Message, other: Message) -> bool:
    """`same_content` without what clients don't send back: reasoning, refusals, names."""
    if isinstance(one, AssistantMessage) and isinstance(other, AssistantMessage):
        return one.text == other.text and (
            not other.tool_calls
            or [(call.id, call.name, call.arguments) for call in one.tool_calls]
            == [(call.id, call.name, call.arguments) for call in other.tool_calls]
        )
    if isinstance(one, ToolMessage) and isinstance(other, ToolMessage):
        return one.tool_call_id == other.tool_call_id and one.text == other.text
    return one.same_content(other)
