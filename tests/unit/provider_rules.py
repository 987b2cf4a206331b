"""What providers refuse, as one check: a list of faults, empty for messages that any of them would take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

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


_OPENAI_KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "function_call"},
    "tool": {"role", "content", "name", "tool_call_id"},
    "function": {"role", "content", "name"},
}


def openai_faults(prompt: Sequence[dict[str, Any]]) -> list[str]:
    """What Chat Completions refuses in `messages`. A round at the very end may be incomplete."""
    out: list[str] = []
    open_ids: list[str] = []
    for message in prompt:
        role = message["role"]
        if extra := message.keys() - _OPENAI_KEYS[role]:
            out.append(f"keys {extra} in a {role} message")
        if role == "tool":
            if message["tool_call_id"] in open_ids:
                open_ids.remove(message["tool_call_id"])
            else:
                out.append(f"an orphan result for {message['tool_call_id']!r}")
            continue
        out += [f"no result for {call_id}" for call_id in open_ids]
        open_ids = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(open_ids)) < len(open_ids) or not all(open_ids):
            out.append(f"ids {open_ids}")
        if message["content"] is None and not message.keys() & {"tool_calls", "function_call", "refusal"}:
            out.append(f"null content of a {role} message")
    return out


def anthropic_faults(request: dict[str, Any]) -> list[str]:
    """What the Messages API refuses. The last message may have calls that wait for results."""
    out: list[str] = []
    prompt: list[dict[str, Any]] = request["messages"]
    if request.keys() - {"system", "messages"} or request.get("system", "x") in ("", []):
        out.append("keys of the request")
    open_ids: set[str] = set()
    seen: set[str] = set()
    for place, message in enumerate(prompt):
        kinds = [block["type"] for block in message["content"]]
        if place and prompt[place - 1]["role"] == message["role"]:
            out.append("two messages of one role in a row")
        if not kinds or kinds[-1] == "thinking":
            out.append("an empty message, or one that ends with thinking")
        if sorted(kinds, key=lambda kind: kind != "tool_result") != kinds:
            out.append("results after other content")
        out += _block_faults(message)
        answered = {block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"}
        last = place == len(prompt) - 1
        if answered - open_ids or (open_ids - answered and not last):
            out.append(f"calls {open_ids} got results {answered}")
        new = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if seen & set(new) or len(set(new)) < len(new):
            out.append(f"ids not unique: {new}")
        open_ids = set(new)
        seen |= open_ids
    return out


def _block_faults(message: dict[str, Any]) -> list[str]:
    out: list[str] = []
    for block in message["content"]:
        if block["type"] == "text" and not block["text"].strip():
            out.append("a blank text")
        if block["type"] in ("tool_use", "thinking", "redacted_thinking") and message["role"] != "assistant":
            out.append(f"{block['type']} of a user")
        if block["type"] in ("tool_result", "image", "document") and message["role"] != "user":
            out.append(f"{block['type']} of the assistant")
        if block["type"] == "tool_use" and not (
            re.fullmatch("[a-zA-Z0-9_-]+", block["id"]) and isinstance(block["input"], dict)
        ):
            out.append(f"a malformed call {block}")
    return out
