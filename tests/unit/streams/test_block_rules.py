"""Anthropic and Bedrock: the rules beyond the vectors' cases."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.streams.cases import assert_reads_back, message_of, shown


def start(index: Any, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: Any, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def parts(*chunks: Any) -> list[dict[str, Any]]:
    message = message_of("anthropic", *chunks)
    assert_reads_back(message)
    return [{key: value for key, value in shown(part).items() if value or key == "call"} for part in message.parts]


NONE: dict[str, Any] = {}
TEXT_A = {"type": "text", "text": "A"}
TEXT_B = {"type": "text", "text": "B"}


@pytest.mark.parametrize(
    ("chunks", "wanted"),
    [
        # blocks: the order of the index, not of arrival
        (
            [delta(1, "text_delta", text="B"), delta(0, "thinking_delta", thinking="A")],
            [{"type": "reasoning", "text": "A"}, TEXT_B],
        ),
        # one index for everything: what doesn't fit the open block is beside it
        (
            [
                start(0, type="text", text="A"),
                stop(0),
                start(0, type="tool_use", id="t", name="f", input={}),
                delta(0, "input_json_delta", partial_json="{}"),
                delta(0, "text_delta", text="B"),
            ],
            [TEXT_A, {"type": "tool_call", "call": 0}, TEXT_B],
        ),
        # no index at all: a start is the next block, a delta speaks of the last
        (
            [
                start(None, type="text", text=""),
                delta(None, "text_delta", text="A"),
                start(None, type="thinking"),
                delta(None, "thinking_delta", thinking="T"),
            ],
            [TEXT_A, {"type": "reasoning", "text": "T"}],
        ),
        # a start that comes after its first delta doesn't empty the block
        ([delta(0, "text_delta", text="A"), start(0, type="text", text="")], [TEXT_A]),
        # thinking: a signature alone, also for a block that nothing opened
        ([delta(0, "signature_delta", signature="s")], [{"type": "reasoning", "extras": {"signature": "s"}}]),
        (
            [start(0, type="thinking", thinking="T", signature="s")],
            [{"type": "reasoning", "text": "T", "extras": {"signature": "s"}}],
        ),
        # a text or thinking block that stays empty is dropped; a citation alone is kept
        ([start(0, type="text", text=""), start(1, type="thinking", thinking="", signature="")], []),
        (
            [delta(0, "citations_delta", citation={"a": 1}), delta(0, "citations_delta", citation={"a": 2})],
            [{"type": "text", "extras": {"citations": [{"a": 1}, {"a": 2}]}}],
        ),
        (
            [start(0, type="text", text="A", citations=[{"a": 1}]), delta(0, "citations_delta", citation=None)],
            [{"type": "text", "text": "A", "extras": {"citations": [{"a": 1}]}}],
        ),
        # hosted: the input of a call that the provider runs is JSON again, unfinished it is text
        (
            [
                start(0, type="server_tool_use", id="s", name="w", input={}),
                delta(0, "input_json_delta", partial_json='{"q":'),
            ],
            [{"type": "opaque", "data": {"type": "server_tool_use", "id": "s", "name": "w", "input": '{"q":'}}],
        ),
        (
            [start(0, type="mcp_tool_use", id="s", input={"a": 1})],
            [{"type": "opaque", "data": {"type": "mcp_tool_use", "id": "s", "input": {"a": 1}}}],
        ),
        (
            [start(0, type="compaction", content=None), delta(0, "compaction_delta", content="sum")],
            [{"type": "opaque", "data": {"type": "compaction", "content": "sum"}}],
        ),
    ],
)
def test_blocks(chunks: list[Any], wanted: list[Any]) -> None:
    """By index and in its order; an unopened block is opened by its first known delta."""
    assert parts(*chunks) == wanted


@pytest.mark.parametrize(
    ("chunks", "arguments"),
    [
        ([start(0, type="tool_use", id="t", name="f")], "{}"),
        ([start(0, type="tool_use", id="t", name="f", input=None)], "{}"),
        ([start(0, type="tool_use", id="t", name="f", input={"a": "É"})], '{"a":"É"}'),
        ([start(0, type="tool_use", id="t", name="f", input='{"a":')], '{"a":'),
        (
            [
                start(0, type="tool_use", id="t", name="f", input={"a": 1}),
                delta(0, "input_json_delta", partial_json="{ }"),
            ],
            "{ }",
        ),
        ([delta(0, "input_json_delta", partial_json="[")], "["),
    ],
)
def test_inputs(chunks: list[Any], arguments: str) -> None:
    """Fragments as they came, else the input of the start, else `{}`."""
    (call,) = message_of("anthropic", *chunks).tool_calls
    assert call.arguments == arguments


def test_content_of_a_message_start_comes_first() -> None:
    """Once: a second start resets nothing and doubles nothing, its usage is a later total."""
    content = [{"type": "text", "text": "Pre"}]
    first: Any = {"type": "message_start", "message": {"id": "a", "content": content, "usage": {"i": 1}}}
    message = message_of(
        "anthropic",
        first,
        delta(0, "text_delta", text="fix"),
        {**first, "message": {**first["message"], "id": "b", "usage": {"i": 2, "o": None}}},
    )
    assert (message.text, message.response_id, message.usage) == ("Prefix", "a", {"i": 2})


@pytest.mark.parametrize(
    ("chunks", "status", "finish"),
    [
        ([{"type": "message_stop"}], "complete", None),
        ([{"type": "message_delta", "delta": {"stop_reason": "pause_turn"}}], "complete", "pause_turn"),
        ([{"type": "message_delta", "delta": {"stop_reason": None}}, {"type": "ping"}], "truncated", None),
        (
            [
                {"type": "message_delta", "delta": {"stop_reason": "a"}},
                {"type": "message_delta", "delta": {"stop_reason": "b"}},
            ],
            "complete",
            "b",
        ),
        (
            [{"type": "message", "id": "x", "content": [{"type": "text", "text": "A"}], "stop_reason": "end_turn"}],
            "complete",
            "end_turn",
        ),
        ([{"type": "message_stop"}, {"type": "error", "error": "late"}], "error", None),
    ],
)
def test_status(chunks: list[Any], status: str, finish: str | None) -> None:
    """Complete with a stop reason or message_stop; the last reason counts; an error wins."""
    message = message_of("anthropic", *chunks)
    assert (message.status, message.finish_reason) == (status, finish)


def test_extras_of_anthropic() -> None:
    """Stop details, sequences, the container, a request id; of a block, with its part."""
    message = message_of(
        "anthropic",
        {"type": "message_start", "message": {"id": "a", "container": {"id": "c"}, "stop_sequence": None}},
        start(0, type="tool_use", id="t", name="f", caller={"type": "direct"}),
        {"type": "message_delta", "delta": {"stop_sequence": "END"}, "context_management": {"x": 1}},
        {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"n": 1}, "message": {"id": "snapshot"}},
    )
    wanted = {"container": {"id": "c"}, "stop_sequence": "END", "context_management": {"x": 1}}
    assert message.extras == {**wanted, "amazon-bedrock-invocationMetrics": {"n": 1}}
    assert message.tool_calls[0].extras == {"caller": {"type": "direct"}}


def block(index: Any, **delta: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"delta": delta, "contentBlockIndex": index}}


@pytest.mark.parametrize(
    ("chunks", "wanted"),
    [
        (
            [block(1, text="B"), block(0, reasoningContent={"text": "A"})],
            [{"type": "reasoning", "text": "A", "extras": NONE}, {"type": "text", "text": "B", "extras": NONE}],
        ),
        (
            [block(0, reasoningContent={"signature": "s"})],
            [{"type": "reasoning", "text": "", "extras": {"signature": "s"}}],
        ),
        # bytes as boto3 has them, and base64 as the JSON has it; fragments are one sequence of bytes
        (
            [
                block(0, reasoningContent={"redactedContent": b"R"}),
                block(0, reasoningContent={"redactedContent": "RUQ="}),
            ],
            [{"type": "reasoning", "text": "", "extras": {"redactedContent": "UkVE"}}],
        ),
        (
            [block(0, text="A"), block(0, citation={"title": "t"})],
            [{"type": "text", "text": "A", "extras": {"citations": [{"title": "t"}]}}],
        ),
        (
            [
                {
                    "contentBlockStart": {
                        "start": {"toolUse": {"toolUseId": "n", "name": "g", "type": "server_tool_use"}},
                        "contentBlockIndex": 0,
                    }
                },
                block(0, toolUse={"input": '{"q":1}'}),
            ],
            [
                {
                    "type": "opaque",
                    "data": {
                        "toolUse": {"toolUseId": "n", "name": "g", "type": "server_tool_use", "input": {"q": 1}}
                    },
                }
            ],
        ),
        (
            [
                {"contentBlockStart": {"start": {"toolResult": {"toolUseId": "n"}}, "contentBlockIndex": 0}},
                block(0, toolResult=[{"text": "a"}]),
                block(0, toolResult=[{"text": "b"}]),
            ],
            [
                {
                    "type": "opaque",
                    "data": {"toolResult": {"toolUseId": "n", "content": [{"text": "a"}, {"text": "b"}]}},
                }
            ],
        ),
        ([block(0, toolUse={"input": {"a": 1}})], [{"type": "tool_call", "call": 0}]),
        ([block(0, glow=NONE), block(0, text=None), {"contentBlockDelta": {"delta": None}}], []),
    ],
)
def test_bedrock_blocks(chunks: list[Any], wanted: list[Any]) -> None:
    """Text opens itself; signatures and redacted bytes stay with their part; hosted blocks are kept whole."""
    message = message_of("bedrock_converse", *chunks)
    assert [shown(part) for part in message.parts] == wanted
    assert_reads_back(message)


def test_bedrock_errors() -> None:
    """A member that is an exception; the first stays; a null body is none."""
    throttled = {"throttlingException": {"message": "slow"}}
    message = message_of(
        "bedrock_converse", {"validationException": None}, throttled, {"internalServerException": {}}
    )
    assert (message.status, message.error) == ("error", {"type": "throttlingException", "message": "slow"})
    assert message_of("bedrock_converse", {"validationException": None}).status == "truncated"
