"""What providers refuse, as one check: a list of faults, empty for messages that any of them would take."""

from __future__ import annotations

from collections.abc import Sequence

from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage
from diarist.runtime.parts import ToolCall


def faults(messages: Sequence[Message], *, systems_first: bool = True) -> list[str]:
    """Faults of a prompt. Without `systems_first` the system messages may stand anywhere and are not looked at.

    Calls may wait for results only at the very end: that is a round still running. It is written without the
    code under test: a set of open calls that each message must leave in order.
    """
    out = _misplaced(messages) if systems_first else []
    open_calls: list[ToolCall] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            continue
        if isinstance(message, ToolMessage):
            answered = next((call for call in open_calls if _answers(message, call)), None)
            if answered is None:
                out.append(f"an orphan result for {message.tool_call_id!r}")
            else:
                open_calls.remove(answered)
            continue
        out += [f"no result for {call.id!r}" for call in open_calls]
        open_calls = list(message.tool_calls) if isinstance(message, AssistantMessage) else []
    return out


def _misplaced(messages: Sequence[Message]) -> list[str]:
    kinds = [isinstance(message, SystemMessage) for message in messages]
    return [] if kinds == sorted(kinds, reverse=True) else ["a system message after others"]


def _answers(result: ToolMessage, call: ToolCall) -> bool:
    return result.tool_call_id == call.id
