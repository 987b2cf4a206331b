"""Nothing is lost between a message, its dict and its line, in either direction."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given

from diarist.runtime.codec import decode, encode
from diarist.runtime.errors import InvalidMessageError
from diarist.runtime.log import lazy_message, line_of
from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from diarist.runtime.parts import FilePart, ImagePart, OpaquePart, ReasoningPart, TextPart, ToolCall, ToolCallPart

from .strategies import chat_dicts, json_values, messages


@given(chat_dicts)
@example({"role": "user", "content": "", "extras": {"status": "complete"}})
@example({"role": "user", "content": "", "extras": {"extras": {"name": "a"}}})
@example({"role": "assistant", "content": "", "status": "weird", "extras": {"status": "complete"}})
@example({"role": "developer", "content": "", "extras": {"role": "system"}})
def test_a_dict_comes_back_as_it_was(data: dict[str, Any]) -> None:
    before = json.dumps(data, sort_keys=True)
    assert Message.from_dict(data).to_dict() == data
    assert json.dumps(data, sort_keys=True) == before


@given(messages)
@example(AssistantMessage("", extras={"extras": 5, "content": 1}))
@example(AssistantMessage("", [ToolCall("a", "b"), ToolCall(None, "b", type="function_call")]))
@example(ToolMessage("", extras={"tool_call_id": 5}))
def test_a_message_comes_back_equal(message: Message) -> None:
    again = Message.from_dict(message.to_dict())
    assert again == message
    assert hash(again) == hash(message)
    assert again.same_content(message)


@given(messages)
def test_a_stored_message_comes_back_equal(message: Message) -> None:
    line = line_of(message.to_dict())
    assert b"\n" not in line
    stored = lazy_message(line)
    assert type(stored) is type(message)
    assert stored == message
    assert line_of(lazy_message(line).to_dict()) == line


@given(json_values)
def test_any_json_value_survives_the_codec(value: Any) -> None:
    data = encode(value)
    assert b"\n" not in data
    back = decode(data)
    assert back == value
    assert json.dumps(back) == json.dumps(value)


@pytest.mark.parametrize(
    "data",
    [
        {"role": "assistant", "content": None, "tool_calls": None, "refusal": None, "audio": None},
        {"role": "assistant", "content": "", "tool_calls": [], "metadata": {}, "reasoning": "", "parts": []},
        {"role": "user", "content": "", "name": None, "metadata": "text", "id": 5, "status": "complete"},
        {"role": "assistant", "content": "", "status": "weird", "parts": [5], "usage": None, "error": "text"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "builtin_function", "function": {"name": "$web", "arguments": ""}}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "index": 0, "function": {"name": "f", "arguments": "{", "x": 1}}
            ],
        },
        {"role": "function", "content": "1", "name": "f"},
        {"role": "tool", "content": [{"type": "text", "text": "1"}], "tool_call_id": None},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "detail": None}}]},
    ],
)
def test_odd_but_legal_dicts_come_back_as_they_were(data: dict[str, Any]) -> None:
    assert Message.from_dict(data).to_dict() == data


def test_fields_are_found_where_the_format_has_them() -> None:
    message = Message.from_dict(
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "reasoning", "text": "hm", "signature": "s"}],
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            "created_at": "2025-01-01T00:00:00Z",
            "metadata": {"k": [1]},
            "parts": [{"type": "tool_call", "call": 0}, {"type": "weird"}],
            "vendor": 1,
        }
    )
    assert isinstance(message, AssistantMessage)
    assert message.content == (TextPart("a"), ReasoningPart("hm", extras={"signature": "s"}))
    assert message.tool_calls == (ToolCall("c", "f"),)
    assert message.created_at == datetime(2025, 1, 1, tzinfo=UTC)
    assert message.layout == (ToolCallPart(0), OpaquePart({"type": "weird"}))
    assert (message.metadata, message.extras, message.text) == ({"k": [1]}, {"vendor": 1}, "a")


def test_arguments_given_as_an_object_become_text() -> None:
    data = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "f", "arguments": {"q": "é\ud800"}}}],
    }
    message = Message.from_dict(data)
    assert isinstance(message, AssistantMessage)
    assert json.loads(message.tool_calls[0].arguments) == {"q": "é\ud800"}
    assert message.tool_calls[0].id is None


WRONG: list[tuple[Any, str]] = [
    ([], "list is no message"),
    ({}, "role: None"),
    ({"role": ["user"]}, "role: "),
    ({"role": "robot", "content": ""}, "role: 'robot'"),
    ({"role": "user", "content": 5}, "content: int"),
    ({"role": "user", "content": {"text": "a"}}, "content: "),
    ({"role": "user", "content": ["a", 5]}, r"content\[1\]: int"),
    ({"role": "tool", "content": "", "tool_call_id": 5}, "tool_call_id: int"),
    ({"role": "assistant", "tool_calls": {"a": 1}}, "tool_calls: dict"),
    ({"role": "assistant", "tool_calls": [5]}, r"tool_calls\[0\]: int"),
    ({"role": "assistant", "tool_calls": [{"id": "a"}]}, r"tool_calls\[0\].function: missing"),
    ({"role": "assistant", "tool_calls": [{"id": 5, "function": {"name": "f"}}]}, r"tool_calls\[0\].id: int"),
    ({"role": "assistant", "tool_calls": [{"function": {}}]}, r"tool_calls\[0\].function.name: missing"),
    ({"role": "assistant", "function_call": "f"}, "function_call: str"),
]


@pytest.mark.parametrize(("data", "path"), WRONG)
def test_a_wrong_shape_is_refused_with_its_path(data: Any, path: str) -> None:
    with pytest.raises(InvalidMessageError, match=path):
        Message.from_dict(data)


def test_opaque_parts_of_a_known_kind_are_what_they_stand_for() -> None:
    message = UserMessage([OpaquePart({"type": "text", "text": "a"}), {"type": "file", "file": {}}, "b"])
    assert message.content == (TextPart("a"), FilePart(), TextPart("b"))


def test_a_layout_keeps_a_block_whole_that_looks_like_a_part_of_ours() -> None:
    lookalike, wrapped = OpaquePart({"type": "text", "text": "a"}), OpaquePart({"type": "opaque", "data": {"a": 1}})
    twice = OpaquePart({"type": "opaque", "data": dict(lookalike.data)})
    answer = AssistantMessage("a", layout=[lookalike, wrapped, twice, ImagePart("u")])
    assert answer.layout == (lookalike, wrapped, twice, ImagePart("u"))
    assert Message.from_dict(answer.to_dict()) == answer


@pytest.mark.parametrize("kind", [SystemMessage, UserMessage, ToolMessage, AssistantMessage])
def test_a_plain_message_has_a_plain_dict(kind: type[Message]) -> None:
    message = kind.from_dict({"role": kind.role, "content": "a"})
    assert message.to_dict() == {"role": kind.role, "content": "a"}
