"""Hypothesis strategies for conversations and messages, for any test that wants them."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from diarist.runtime.parts import (
    FilePart,
    ImagePart,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolCallPart,
)

_TEXTS = st.sampled_from(["", "a", "b", "c"])
_CALL_IDS = st.sampled_from([None, "call_0", "call_1", "call_2"])
_NAMES = st.sampled_from([None, "look", "find"])

systems: st.SearchStrategy[Message] = _TEXTS.map(SystemMessage)
users: st.SearchStrategy[Message] = _TEXTS.map(UserMessage)
small_calls = st.builds(ToolCall, _CALL_IDS, st.sampled_from(["look", "find"]))
assistants: st.SearchStrategy[Message] = st.builds(AssistantMessage, _TEXTS, st.lists(small_calls, max_size=3))
results: st.SearchStrategy[Message] = st.builds(ToolMessage, _TEXTS, _CALL_IDS, _NAMES)

bodies = st.one_of(users, assistants, results)
"""Messages other than system messages, of few contents, so that equal ones are common."""
small_messages = st.one_of(systems, bodies)
chats = st.lists(small_messages, max_size=14)
"""Any order of messages, most of them nothing that a provider would take."""

# Everything JSON can carry, with what breaks encoders most often.
texts = st.text(st.characters(), max_size=6) | st.sampled_from(["\ud83d", "\x00", "\n\u2028", "é", '"role":'])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)

# Names of fields of ours, so that extras clash with them.
_OF_MESSAGES = st.sampled_from(["role", "content", "name", "id", "created_at", "metadata", "extras", "tool_call_id"])
_OF_ANSWERS = st.sampled_from(["tool_calls", "function_call", "reasoning", "refusal", "status", "usage", "parts"])
_OF_PARTS = st.sampled_from(["type", "text", "image_url", "file", "call", "function", "custom", "arguments", "input"])
_FIELD_NAMES = _OF_MESSAGES | _OF_ANSWERS | _OF_PARTS
_CLASHING_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    ["", "text", "complete", "developer", "user", "function", "2025-01-01T00:00:00+00:00", {}, {"a": 1}, [], [{}], 0]
)


def _merged(more: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    return {**more, **own}


def _hiding(outer: dict[str, Any], hidden: dict[str, Any]) -> dict[str, Any]:
    return {**outer, "extras": hidden}


_flat_extras: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    _FIELD_NAMES | texts, _CLASHING_VALUES | json_values, max_size=4
)
extras = st.recursive(_flat_extras, lambda inner: st.builds(_hiding, inner, inner), max_leaves=3)
metadata: st.SearchStrategy[dict[str, Any]] = st.dictionaries(texts, json_values, max_size=3)
times = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]))

_optional_text = st.none() | texts
parts = st.one_of(
    st.builds(TextPart, texts, extras=extras),
    st.builds(ImagePart, texts, _optional_text, extras=extras),
    st.builds(FilePart, _optional_text, _optional_text, _optional_text, extras=extras),
    st.builds(ReasoningPart, texts, extras=extras),
    st.builds(ToolCallPart, st.integers(0, 3)),
    st.builds(OpaquePart, extras),
)
calls = st.one_of(
    st.builds(ToolCall, _optional_text, texts, texts, st.sampled_from(["function", "custom"]), extras=extras),
    st.builds(ToolCall, st.none(), texts, texts, st.just("function_call"), extras=extras),
)

_content = st.none() | texts | st.lists(parts, max_size=3)
_common: dict[str, st.SearchStrategy[Any]] = {
    "name": _optional_text,
    "metadata": metadata,
    "id": _optional_text,
    "created_at": st.none() | times,
    "extras": extras,
}
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(SystemMessage, _content, **_common),
    st.builds(UserMessage, _content, **_common),
    st.builds(ToolMessage, _content, _optional_text, **_common),
    st.builds(
        AssistantMessage,
        _content,
        st.lists(calls, max_size=3),
        texts,
        refusal=_optional_text,
        finish_reason=_optional_text,
        usage=st.none() | metadata,
        model=_optional_text,
        response_id=_optional_text,
        status=st.sampled_from([None, "complete", "truncated", "error", "cancelled"]),
        error=st.none() | metadata,
        layout=st.lists(parts, max_size=3),
        **_common,
    ),
)
"""Any message that can be made."""


def _with(required: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(_merged, extras, st.fixed_dictionaries(required))


def _call_dict(kind: str, inner: str) -> st.SearchStrategy[dict[str, Any]]:
    return _with({"id": texts, "type": st.just(kind), kind: _with({"name": texts, inner: texts})})


_call_dicts = _call_dict("function", "arguments") | _call_dict("custom", "input")
_part_dicts = st.one_of(
    _with({"type": st.just("text"), "text": texts}),
    _with({"type": st.just("image_url"), "image_url": st.fixed_dictionaries({"url": texts})}),
    _with({"type": st.just("file"), "file": st.fixed_dictionaries({"file_id": texts})}),
    extras,
)
_content_values = st.none() | texts | st.lists(_part_dicts, max_size=3)


def _message_dict(*roles: str, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return _with({"role": st.sampled_from(roles), "content": _content_values, **more})


chat_dicts = st.one_of(
    _message_dict("system", "developer", "user"),
    _message_dict("tool", tool_call_id=texts),
    _message_dict("assistant", tool_calls=st.none() | st.lists(_call_dicts, max_size=3), function_call=st.none()),
    _message_dict(
        "assistant", tool_calls=st.just([]), function_call=_with({"name": texts, "arguments": texts}), parts=st.none()
    ),
    _message_dict("function", tool_call_id=st.none(), name=texts),
)
"""Messages in the chat format, with all kinds of keys that the format doesn't know."""
