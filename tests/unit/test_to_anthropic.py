"""The Messages API gets blocks that it takes, and its own thinking back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from diarist.runtime.converters import to_anthropic
from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from diarist.runtime.parts import (
    FilePart,
    ImagePart,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolCallPart,
)

from .provider_rules import anthropic_faults
from .strategies import chats

EPHEMERAL = {"type": "ephemeral"}


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": content, **more}


def blocks_of(*messages: Message) -> list[Any]:
    return [block for item in to_anthropic(messages)["messages"] for block in item["content"]]


def test_system_text_stands_apart() -> None:
    request = to_anthropic([UserMessage("U"), SystemMessage("S"), SystemMessage(" "), SystemMessage("S2")])
    assert request == {"system": "S\n\nS2", "messages": [{"role": "user", "content": [text("U")]}]}
    assert to_anthropic([UserMessage("U")]).keys() == {"messages"}
    cached = SystemMessage([TextPart("S", extras={"cache_control": EPHEMERAL})])
    assert to_anthropic([cached])["system"] == [text("S", cache_control=EPHEMERAL)]


def test_a_round_is_one_message_of_results_before_the_next_question() -> None:
    calls = [ToolCall("a", "look", '{"q":1}'), ToolCall("b", "look", "[1]"), ToolCall("c", "run", "ls", "custom")]
    results = [ToolMessage("1", "a"), ToolMessage("", "b"), ToolMessage("3", "c", extras={"is_error": True})]
    request = to_anthropic([UserMessage("U"), AssistantMessage("Let me look.", calls), *results, UserMessage("U2")])
    assert request["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                text("Let me look."),
                {"type": "tool_use", "id": "a", "name": "look", "input": {"q": 1}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {}},
                {"type": "tool_use", "id": "c", "name": "run", "input": {"input": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "tool_result", "tool_use_id": "b"},
                {"type": "tool_result", "tool_use_id": "c", "content": "3", "is_error": True},
                text("U2"),
            ],
        },
    ]


@pytest.mark.parametrize("arguments", ["", "{", "null", "1", '{"a": NaN}', "[" * 100_000])
def test_arguments_that_are_no_object_are_an_empty_one(arguments: str) -> None:
    assert blocks_of(AssistantMessage("", [ToolCall("a", "look", arguments)]))[0]["input"] == {}


def test_ids_are_made_to_fit_and_used_once() -> None:
    round_one = [
        AssistantMessage("", [ToolCall("f.x:0", "x"), ToolCall(None, "x")]),
        ToolMessage("1", "f.x:0"),
        ToolMessage("2"),
    ]
    round_two = [AssistantMessage("", [ToolCall("f.x:0", "x")]), ToolMessage("3", "f.x:0")]
    blocks = blocks_of(UserMessage("U"), *round_one, *round_two)
    assert [block["id"] for block in blocks if block["type"] == "tool_use"] == ["f_x_0", "call_1", "f_x_0_2"]
    given = [(block["tool_use_id"], block["content"]) for block in blocks if block["type"] == "tool_result"]
    assert given == [("f_x_0", "1"), ("call_1", "2"), ("f_x_0_2", "3")]


def test_signed_thinking_goes_back_in_its_place() -> None:
    layout: list[Part] = [
        ReasoningPart("hm", extras={"signature": "c2ln"}),
        OpaquePart({"type": "redacted_thinking", "data": "cmVk"}),
        TextPart("Look.", extras={"citations": [{"url": "x"}], "other": 1}),
        OpaquePart({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        OpaquePart({"type": "web_search_call"}),
        ReasoningPart("unsigned"),
        ToolCallPart(0),
    ]
    message = AssistantMessage("Look.", [ToolCall("a", "look")], "hmunsigned", layout=layout)
    assert blocks_of(UserMessage("U"), message)[1:] == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "cmVk"},
        text("Look.", citations=[{"url": "x"}]),
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "a", "name": "look", "input": {}},
    ]


def test_thinking_of_gateways_stands_in_extras() -> None:
    listed = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "thinking", "thinking": "no"}, 1]
    assert blocks_of(AssistantMessage("A", extras={"thinking_blocks": listed})) == [listed[0], text("A")]


def test_a_message_never_ends_with_thinking() -> None:
    only = AssistantMessage(layout=[ReasoningPart("hm", extras={"signature": "s"})])
    assert to_anthropic([UserMessage("U"), only, UserMessage("U2")])["messages"] == [
        {"role": "user", "content": [text("U"), text("U2")]}
    ]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (ImagePart("https://x/y.png"), {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}),
        (
            ImagePart("data:image/JPEG;base64,QUJD", extras={"cache_control": EPHEMERAL}),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/jpeg", "data": "QUJD"},
                "cache_control": EPHEMERAL,
            },
        ),
        (
            ImagePart("data:image/png,A%42C"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
        ),
        (
            FilePart("a.pdf", file_data="data:application/pdf;base64,QUJD"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"},
                "title": "a.pdf",
            },
        ),
        (
            FilePart(file_data="QUJD"),
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"}},
        ),
        (
            FilePart(file_data="data:text/markdown;charset=utf-8;base64,QUJD"),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "ABC"}},
        ),
        (
            FilePart(file_data="data:text/plain;base64,!"),
            {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": "!"}},
        ),
        (
            FilePart(file_data="data:image/png;base64,QUJD"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
        ),
        (
            FilePart(file_data="https://x/y.pdf"),
            {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}},
        ),
        (FilePart(file_id="f"), {"type": "document", "source": {"type": "file", "file_id": "f"}}),
        (FilePart("lost.pdf"), None),
        (OpaquePart({"type": "document", "source": {}}), {"type": "document", "source": {}}),
        (OpaquePart({"type": "input_audio", "input_audio": {}}), None),
        (TextPart(" \n"), None),
    ],
)
def test_parts_become_blocks(part: Part, block: dict[str, Any] | None) -> None:
    blocks = blocks_of(UserMessage([part, "."]))
    assert blocks == [*([block] if block else []), text(".")]
    result = blocks_of(AssistantMessage("", [ToolCall("a", "look")]), ToolMessage([part, "."], "a"))[1]
    assert result["content"] == blocks


def test_what_an_assistant_may_not_have_is_left_out() -> None:
    assert blocks_of(AssistantMessage([ImagePart("https://x"), TextPart("A")])) == [text("A")]
    assert blocks_of(AssistantMessage(refusal="No.")) == [text("No.")]


def test_the_last_answer_loses_trailing_white_space() -> None:
    assert blocks_of(UserMessage("U "), AssistantMessage("A \n")) == [text("U "), text("A")]


def test_native_calls_are_not_sent_twice() -> None:
    native: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    message = AssistantMessage([OpaquePart(native)], [ToolCall("a", "look")])
    assert blocks_of(message) == [native]
    assert blocks_of(AssistantMessage([OpaquePart(native)])) == [native]


def test_unmatched_messages_are_left_out_unless_asked_for() -> None:
    orphan = ToolMessage("T", "c1")
    assert blocks_of(orphan) == []
    asked = to_anthropic([orphan], show_unmatched=True)["messages"]
    assert asked == [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "T"}]}]


@given(chats)
def test_whatever_was_stored_the_request_is_accepted(messages: list[Message]) -> None:
    assert anthropic_faults(to_anthropic(messages)) == []
