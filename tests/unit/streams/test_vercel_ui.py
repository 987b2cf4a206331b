"""The output format: `vectors/vercel_ui.json`, and the rules beyond its cases."""

from __future__ import annotations

import json
from typing import Any

import pytest

from diarist.adapters.streaming import vercel_ui
from diarist.runtime.messages import AssistantMessage
from diarist.runtime.parts import OpaquePart, Part, ReasoningPart, TextPart, ToolCall, ToolCallPart
from tests.unit.streams.cases import Case, is_object, load


def part_of(data: dict[str, Any]) -> Part:
    if data["type"] == "tool_call":
        return ToolCallPart(data["call"])
    if data["type"] == "opaque":
        return OpaquePart(data["data"])
    return (TextPart if data["type"] == "text" else ReasoningPart)(data["text"])


def message_of(given: dict[str, Any]) -> AssistantMessage:
    return AssistantMessage(
        given["text"],
        [ToolCall(call["id"], call["name"], call["arguments"]) for call in given["tool_calls"]],
        given["reasoning"],
        refusal=given["refusal"],
        finish_reason=given["finish_reason"],
        error=given["error"],
        status=given["ends"],
        layout=[part_of(part) for part in given.get("parts", ())],
    )


def kinds(message: AssistantMessage) -> list[str]:
    return [part if isinstance(part, str) else part["type"] for part in vercel_ui.parts(message, "m")]


def calls_of(message: AssistantMessage) -> list[dict[str, Any]]:
    listed = [part for part in vercel_ui.parts(message, "m") if isinstance(part, dict)]
    return [part for part in listed if part["type"].startswith("tool-")]


def text_of(value: object) -> object:
    return "*" if isinstance(value, str) and value else value


@pytest.mark.parametrize("case", load("vercel_ui"), ids=lambda case: case["name"])
def test_the_vectors(case: Case) -> None:
    """The parts in order; ids are ours already in order of appearance; `*` is any text."""
    given = case["aggregate"]
    got = list(vercel_ui.parts(message_of(given), given["message_id"]))
    assert len(got) == len(case["expect_parts"])
    for wanted, part in zip(case["expect_parts"], got, strict=True):
        if is_object(wanted) and is_object(part):
            for key, value in wanted.items():
                assert (text_of(part.get(key)) if value == "*" else part.get(key)) == value
            assert part.keys() == wanted.keys()
        else:
            assert part == wanted


def test_the_wire_form() -> None:
    """One `data:` line per part, JSON that a browser decodes, the sentinel last."""
    message = AssistantMessage("Grün\u2028\n\ud83d", status="complete")
    lines = b"".join(vercel_ui.sse(vercel_ui.parts(message, "m"))).split(b"\n\n")
    assert lines[-2:] == [b"data: [DONE]", b""]
    decoded = [json.loads(line.removeprefix(b"data: ")) for line in lines[:-2]]
    assert decoded == list(vercel_ui.parts(message, "m"))[:-1]
    assert all(b"\n" not in line for line in lines)
    assert vercel_ui.HEADERS["x-vercel-ai-ui-message-stream"] == "v1"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        *[(word, "stop") for word in ("stop", "end_turn", "STOP", "stop_sequence", "completed")],
        *[(word, "length") for word in ("length", "MAX_TOKENS", "max_output_tokens")],
        ("model_context_window_exceeded", "length"),
        *[(word, "tool-calls") for word in ("tool_calls", "tool_use", "function_call")],
        *[(word, "content-filter") for word in ("content_filter", "content_filtered", "SAFETY", "refusal")],
        *[(word, "content-filter") for word in ("RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")],
        ("guardrail_intervened", "content-filter"),
        *[(word, "error") for word in ("error", "failed", "MALFORMED_FUNCTION_CALL")],
        *[(word, "other") for word in ("pause_turn", "LANGUAGE", "", None)],
    ],
)
def test_finish_reasons(word: str | None, reason: str) -> None:
    """The table of the rule, case ignored; anything else and none is `other`."""
    assert vercel_ui.finish_reason(word, has_calls=False) == reason
    assert vercel_ui.finish_reason(word, has_calls=True) == ("tool-calls" if reason == "stop" else reason)


def test_older_clients_get_no_finish_reason() -> None:
    """AI SDK 5 refuses unknown keys."""
    parts = list(vercel_ui.parts(AssistantMessage("A"), "m", finish_reasons=False))
    assert parts[-2] == {"type": "finish"}


def test_calls_without_id_get_one() -> None:
    """Gemini and Ollama send none, the protocol wants one; two calls have two."""
    message = AssistantMessage("", [ToolCall(None, "a"), ToolCall(None, "a")], status="complete")
    assert len({part["toolCallId"] for part in calls_of(message)}) == 2


@pytest.mark.parametrize("arguments", ["NaN", '{"x": Infinity}', "{", "[" * 100_000])
def test_what_is_no_json_is_an_input_error(arguments: str) -> None:
    """Also what Python alone takes for JSON, and what is nested too deep for it."""
    call = calls_of(AssistantMessage("", [ToolCall("c", "f", arguments)], status="complete"))[-1]
    assert call["type"] == "tool-input-error"
    assert call["input"] == arguments
    assert call["errorText"]


def test_a_custom_call_has_text_for_input() -> None:
    """Free text is the input itself, not broken JSON."""
    call = calls_of(AssistantMessage("", [ToolCall("c", "f", "flag UP", "custom")], status="complete"))[-1]
    assert (call["type"], call["input"]) == ("tool-input-available", "flag UP")


@pytest.mark.parametrize("status", ["cancelled", "error", "truncated"])
def test_only_a_complete_message_has_inputs(status: Any) -> None:
    """Also arguments that are whole JSON by chance; the last part before the sentinel is the only terminal one."""
    told = kinds(AssistantMessage("Hi", [ToolCall("c", "f", "{}")], status=status, refusal="No."))
    assert "tool-input-available" not in told
    assert "tool-input-error" not in told
    assert told.count("text-end") == 2
    assert told[-2:] == ["abort" if status == "cancelled" else "error", "[DONE]"]
    assert "finish" not in told


@pytest.mark.parametrize("error", [None, {}, {"message": ""}, {"message": {"a": 1}}, {"code": 1}])
def test_an_error_always_has_a_text(error: Any) -> None:
    """Whatever the vendor's error object is."""
    parts = list(vercel_ui.parts(AssistantMessage("", status="error", error=error), "m"))
    assert isinstance(end := parts[-2], dict)
    assert end["type"] == "error"
    assert end["errorText"]
