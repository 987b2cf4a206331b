"""Chat Completions gets its own keys, and nothing that it refuses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given

from diarist.runtime.converters import to_openai
from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from diarist.runtime.parts import ToolCall

from .provider_rules import openai_faults
from .strategies import chats

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def test_only_the_official_keys_are_sent() -> None:
    messages: list[Message] = [
        SystemMessage("S", metadata={"a": 1}, id="m1", created_at=NOW, extras={"x": 1}),
        UserMessage("U", name="ann", metadata={"a": 1}, id="m2"),
        AssistantMessage("A", reasoning="hm", status="complete", model="m", usage={"n": 1}, finish_reason="stop"),
    ]
    assert to_openai(messages) == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U", "name": "ann"},
        {"role": "assistant", "content": "A"},
    ]


def test_a_round_of_calls_goes_out_as_it_came_in() -> None:
    extra: dict[str, Any] = {"google": {"thought_signature": "c2ln"}}
    calls = [
        ToolCall("c1", "look", '{"q": 1}', extras={"index": 0, "extra_content": extra}),
        ToolCall("c2", "run", "ls", "custom"),
    ]
    prompt = to_openai(
        [UserMessage("U"), AssistantMessage("", calls), ToolMessage("1", "c1", "look"), ToolMessage("2", "c2")]
    )
    assert prompt[1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"q": 1}'},
                    "extra_content": extra,
                },
                {"id": "c2", "type": "custom", "custom": {"name": "run", "input": "ls"}},
            ],
        },
        {"role": "tool", "content": "1", "tool_call_id": "c1", "name": "look"},
        {"role": "tool", "content": "2", "tool_call_id": "c2"},
    ]


def test_system_messages_come_first_and_developers_stay_developers() -> None:
    developer = Message.from_dict({"role": "developer", "content": "D"})
    prompt = to_openai([UserMessage("U"), SystemMessage("S"), developer])
    assert [(item["role"], item["content"]) for item in prompt] == [
        ("system", "S"),
        ("developer", "D"),
        ("user", "U"),
    ]


def test_unmatched_messages_are_left_out_unless_asked_for() -> None:
    messages = [UserMessage("U"), ToolMessage("T", "c1"), AssistantMessage("A")]
    assert [item["role"] for item in to_openai(messages)] == ["user", "assistant"]
    assert [item["role"] for item in to_openai(messages, show_unmatched=True)] == ["user", "tool", "assistant"]


def test_calls_without_ids_get_some_and_their_results_the_same() -> None:
    calls = [ToolCall(None, "look"), ToolCall("call_0", "look"), ToolCall("x" * 50, "look")]
    results = [ToolMessage("1"), ToolMessage("2", "call_0"), ToolMessage("3", "x" * 50)]
    prompt = to_openai([AssistantMessage("", calls), *results])
    assert [call["id"] for call in prompt[0]["tool_calls"]] == ["call_0", "call_0_2", "x" * 40]
    assert [item["tool_call_id"] for item in prompt[1:]] == ["call_0", "call_0_2", "x" * 40]


def test_the_legacy_form_stays_the_legacy_form() -> None:
    given: list[dict[str, Any]] = [
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
        {"role": "function", "name": "look", "content": "1"},
    ]
    assert to_openai([Message.from_dict(item) for item in given]) == given


@pytest.mark.parametrize(
    ("message", "content"),
    [
        (AssistantMessage(content=None), ""),
        (AssistantMessage(content=None, refusal="No."), None),
        (AssistantMessage(content=None, tool_calls=[ToolCall("c", "look")]), None),
        (
            AssistantMessage(
                [{"type": "text", "text": "a", "annotations": []}, {"type": "refusal", "refusal": "No."}]
            ),
            [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "No."}],
        ),
        (AssistantMessage([{"type": "redacted_thinking", "data": "x"}]), ""),
        (UserMessage(content=None), ""),
        (
            UserMessage(["a", {"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}]),
            [{"type": "text", "text": "a"}, {"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}],
        ),
    ],
)
def test_content_is_what_the_role_may_have(message: Message, content: Any) -> None:
    assert to_openai([message])[0]["content"] == content


def test_what_is_returned_may_be_changed() -> None:
    message = UserMessage([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}])
    to_openai([message])[0]["content"][0]["cache_control"]["type"] = "other"
    assert message.to_dict()["content"][0]["cache_control"] == {"type": "ephemeral"}


@given(chats)
def test_whatever_was_stored_the_prompt_is_accepted(messages: list[Message]) -> None:
    assert openai_faults(to_openai(messages)) == []
