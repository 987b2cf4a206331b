"""Responses, Gemini and Ollama: the rules beyond the vectors' cases."""

from __future__ import annotations

from typing import Any

import pytest

from diarist.runtime.messages import AssistantMessage
from tests.unit.streams.cases import assert_reads_back, message_of, shown


def event(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{name}", **fields}


def added(index: Any, **item: Any) -> dict[str, Any]:
    return event("output_item.added", output_index=index, item=item)


def done(index: Any, **item: Any) -> dict[str, Any]:
    return event("output_item.done", output_index=index, item=item)


def told(*events: Any) -> AssistantMessage:
    message = message_of("openai_responses", *events)
    assert_reads_back(message)
    return message


def text(delta: Any, item: Any = "m", index: Any = 0, content: Any = 0) -> dict[str, Any]:
    return event("output_text.delta", item_id=item, output_index=index, content_index=content, delta=delta)


def message_item(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": words}], **more}


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (
            [text("A"), event("output_text.done", item_id="m", output_index=0, content_index=0, text="B"), text("C")],
            "B",
        ),
        ([text("A"), event("output_text.done", item_id="m", output_index=0, text="")], "A"),
        ([text("A"), done(0, id="m", **message_item("B"))], "B"),
        ([text("A"), done(0, id="m", type="message", content=[])], "A"),
        ([text("A"), done(0, id="m", **message_item(""))], "A"),
        (
            [
                text("A"),
                done(0, id="m", **message_item("B")),
                event("completed", response={"output": [message_item("C")]}),
            ],
            "C",
        ),
        ([text("A"), event("completed", response={"output": []})], "A"),
        ([text("A"), event("completed", response=None)], "A"),
        ([added(0, id="m", **message_item("Pre")), event("incomplete", response={})], "Pre"),
        ([text("B", "n", 1), text("A", "m", 0), text("C", "m", 0, 1)], "ACB"),
        ([text("A", None, None), text("B", None, None)], "AB"),
        ([text("A", "x", 0), text("B", "y", 0)], "AB"),
        (
            [
                event(
                    "content_part.done",
                    item_id="m",
                    output_index=0,
                    content_index=0,
                    part={"type": "output_text", "text": "A"},
                )
            ],
            "A",
        ),
        ([{"object": "response", "status": "completed", "output": [message_item("A")]}], "A"),
    ],
)
def test_layers(events: list[Any], words: str) -> None:
    """Terminal output alone, else the item when done, else done events, else deltas; emptiness wipes nothing."""
    assert told(*events).text == words


def test_the_terminal_response_counts_alone() -> None:
    """With its id, model and usage; nulls there erase nothing; what it leaves out of a reasoning item stays."""
    message = told(
        event("created", response={"id": "a", "model": "m", "usage": {"x": 1}}),
        done(0, id="r", type="reasoning", summary=[], encrypted_content="enc"),
        event(
            "completed",
            response={
                "id": "b",
                "model": None,
                "usage": {"y": 2},
                "status": "completed",
                "output": [
                    {"type": "reasoning", "id": "r", "summary": []},
                    message_item("A", id="n", phase="final_answer"),
                ],
            },
        ),
    )
    assert (message.response_id, message.model, message.usage) == ("b", "m", {"y": 2})
    assert [shown(part)["extras"] for part in message.parts] == [
        {"id": "r", "encrypted_content": "enc"},
        {"id": "n", "phase": "final_answer"},
    ]


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        # whole items on one index, without added events: two calls
        (
            [
                done(0, type="function_call", id="i1", call_id="c1", name="f", arguments="1"),
                done(0, type="function_call", id="i2", call_id="c2", name="g", arguments="2"),
            ],
            [("c1", "f", "1"), ("c2", "g", "2")],
        ),
        # another item id, the same call: one
        (
            [
                added(0, type="function_call", id="i1", call_id="c1", name="f"),
                done(0, type="function_call", id="i2", call_id="c1", name="f", arguments="1"),
            ],
            [("c1", "f", "1")],
        ),
        # arguments: null name and empty arguments when done wipe nothing; an object is encoded
        (
            [
                added(0, type="function_call", id="i", call_id="c", name="f"),
                event("function_call_arguments.delta", item_id="i", delta="1"),
                done(0, type="function_call", id="i", arguments="", name=None),
            ],
            [("c", "f", "1")],
        ),
        ([done(0, type="function_call", id="i", call_id="c", name="f", arguments={"a": 1})], [("c", "f", '{"a":1}')]),
        ([done(0, type="function_call", id="i", name="f", arguments="")], [(None, "f", "")]),
        ([event("function_call_arguments.delta", item_id="i", output_index=0, delta="{")], [(None, "", "{")]),
        # hosted calls and calls of other kinds are none
        (
            [
                done(0, type="mcp_call", id="i", name="f", arguments="{}"),
                done(1, type="computer_call", id="j", call_id="c"),
            ],
            [],
        ),
    ],
)
def test_calls(events: list[Any], calls: list[Any]) -> None:
    """By item id, else by output index and type, else new; `call_id` is the call's id."""
    assert [(call.id, call.name, call.arguments) for call in told(*events).tool_calls] == calls


def test_hosted_items_cut_short() -> None:
    """As added, with what was streamed for them."""
    message = told(
        added(0, type="code_interpreter_call", id="c", code="", status="in_progress"),
        event("code_interpreter_call_code.delta", item_id="c", output_index=0, delta="1+"),
        event("code_interpreter_call_code.delta", item_id="c", output_index=0, delta="1"),
    )
    data = {"type": "code_interpreter_call", "id": "c", "code": "1+1", "status": "in_progress"}
    assert [shown(part) for part in message.parts] == [{"type": "opaque", "data": data}]


@pytest.mark.parametrize(
    ("events", "status", "finish", "error"),
    [
        ([event("incomplete", response={"incomplete_details": {"reason": "steered"}})], "complete", "steered", None),
        ([event("incomplete", response={"status": "incomplete"})], "complete", "incomplete", None),
        ([event("failed", response={"error": {"code": "x"}})], "error", "failed", {"code": "x"}),
        ([event("failed", response=None)], "error", "failed", None),
        (
            [{"type": "error", "code": "c", "message": "m", "param": None, "sequence_number": 3}],
            "error",
            None,
            {"code": "c", "message": "m", "param": None},
        ),
        ([{"type": "error"}, event("failed", response={"error": {"code": "x"}})], "error", "failed", {"code": "x"}),
        ([{"type": "error", "error": "m"}], "error", None, {"message": "m"}),
        ([{"error": {"a": 1}}], "error", None, {"a": 1}),
        ([event("in_progress", response={"status": "in_progress", "error": None})], "truncated", None, None),
    ],
)
def test_ends(events: list[Any], status: str, finish: str | None, error: Any) -> None:
    """Completed and incomplete are complete; the reason, else the status, is the finish reason."""
    message = told(*events)
    assert (message.status, message.finish_reason, message.error) == (status, finish, error)


def gemini(*parts: Any, **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, **candidate}]}


SPANS: list[Any] = [
    ([{"text": "a"}, {"text": ""}, {"text": "b"}], [("text", "ab", {})]),
    (
        [{"text": "a", "thought": True}, {"text": "", "thought": False}, {"text": "b", "thought": True}],
        [("reasoning", "ab", {})],
    ),
    (
        [{"text": "a", "thoughtSignature": "s"}, {"text": "b"}, {"text": "c", "thoughtSignature": "t"}],
        [("text", "a", {"thoughtSignature": "s"}), ("text", "b", {}), ("text", "c", {"thoughtSignature": "t"})],
    ),
    ([{"thoughtSignature": "s"}], [("text", "", {"thoughtSignature": "s"})]),
    ([{"thought": True, "thoughtSignature": "s"}], [("reasoning", "", {"thoughtSignature": "s"})]),
    ([{}, {"thought": True}, {"text": None}, None], []),
]


@pytest.mark.parametrize(("parts", "wanted"), SPANS)
def test_gemini_spans(parts: list[Any], wanted: list[Any]) -> None:
    """Neighbours of one kind merge, a signed part never does and is kept when empty."""
    message = message_of("gemini", *[gemini(part) for part in parts])
    assert [(part["type"], part["text"], part["extras"]) for part in map(shown, message.parts)] == wanted
    assert_reads_back(message)


def test_gemini_blocks_and_reasons() -> None:
    """Unspecified is no reason; a block reason stands in for a missing one; empty fields replace nothing."""
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    unspecified = gemini({"text": "a"}, finishReason="FINISH_REASON_UNSPECIFIED", groundingMetadata={"a": 1})
    message = message_of("gemini", unspecified, gemini(groundingMetadata={}, tokenCount=None))
    assert (message.status, message.extras) == ("truncated", {"groundingMetadata": {"a": 1}})
    assert message_of("gemini", unspecified, blocked).finish_reason == "SAFETY"
    assert message_of("gemini", blocked, gemini(finishReason="STOP")).finish_reason == "STOP"
    assert (
        message_of("gemini", {"promptFeedback": {"blockReason": "BLOCKED_REASON_UNSPECIFIED"}}).status == "truncated"
    )


def test_gemini_in_snake_case() -> None:
    """A dump of the SDK's objects reads like the JSON."""
    call = {"function_call": {"name": "f", "args": {"a_b": 1}, "id": None}, "thought_signature": b"s", "text": None}
    chunk = {
        "candidates": [{"content": {"parts": [call]}, "finish_reason": "STOP", "index": None}],
        "usage_metadata": {"prompt_token_count": 1, "cached_content_token_count": None, "our_own": 2},
        "model_version": "m",
        "response_id": "r",
    }
    message = message_of("auto", chunk)
    assert (message.model, message.response_id, message.finish_reason) == ("m", "r", "STOP")
    assert message.usage == {"promptTokenCount": 1, "our_own": 2}
    assert message.tool_calls[0].arguments == '{"a_b":1}'
    assert message.tool_calls[0].extras == {"thoughtSignature": "cw=="}


def test_ollama_beyond() -> None:
    """The generate interface, calls with vendor data, collected log probabilities, a last line with text."""
    message = message_of(
        "auto",
        {"model": "m", "response": "A", "done": False, "logprobs": [{"token": "A"}]},
        {"model": "m", "message": {"content": "B", "images": ["i"]}, "done": False, "logprobs": [{"token": "B"}]},
        {"model": "m", "message": {"tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{"}, "v": 1}]}},
        {"model": "m", "message": {"content": "C"}, "done": True, "eval_count": 3, "eval_duration": 4},
    )
    assert (message.text, message.status, message.finish_reason, message.usage) == (
        "ABC",
        "complete",
        None,
        {"eval_count": 3},
    )
    assert message.extras == {"images": ["i"], "logprobs": [{"token": "A"}, {"token": "B"}], "eval_duration": 4}
    (call,) = message.tool_calls
    assert (call.id, call.arguments, call.extras) == ("x", "{", {"v": 1})
