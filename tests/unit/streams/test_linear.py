"""The cost of a stream grows with its length: operations are counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from tests.unit.streams.cases import aggregated

Chunks = Callable[[int], list[Any]]


def chat(delta: Callable[[int], dict[str, Any]]) -> Chunks:
    return lambda count: [{"id": "c", "choices": [{"index": 0, "delta": delta(at)}]} for at in range(count)]


def fragment(at: int) -> dict[str, Any]:
    return {"tool_calls": [{"index": at % 3, "function": {"arguments": "ab"}}]}


STREAMS: dict[str, tuple[str, Chunks]] = {
    "text": ("text", lambda count: ["word "] * count),
    "chat": ("openai_chat", chat(lambda _: {"content": "word "})),
    "chat calls": ("openai_chat", chat(fragment)),
    "chat details": (
        "openai_chat",
        chat(lambda _: {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "a"}]}),
    ),
    "responses": (
        "openai_responses",
        lambda count: (
            [
                {
                    "type": "response.output_text.delta",
                    "item_id": "m",
                    "output_index": 0,
                    "content_index": 0,
                    "delta": "a",
                }
            ]
            * count
        ),
    ),
    "anthropic": (
        "anthropic",
        lambda count: (
            [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}] * count
        ),
    ),
    "anthropic input": (
        "anthropic",
        lambda count: (
            [{"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "1"}}]
            * count
        ),
    ),
    "gemini": ("gemini", lambda count: [{"candidates": [{"content": {"parts": [{"text": "a"}]}}]}] * count),
    "ollama": ("ollama", lambda count: [{"model": "m", "message": {"content": "a"}, "done": False}] * count),
    "bedrock": (
        "bedrock_converse",
        lambda count: [{"contentBlockDelta": {"delta": {"text": "a"}, "contentBlockIndex": 0}}] * count,
    ),
    "bedrock result": (
        "bedrock_converse",
        lambda count: (
            [{"contentBlockDelta": {"delta": {"toolResult": [{"text": "a"}]}, "contentBlockIndex": 0}}] * count
        ),
    ),
}


def lines_run(work: Callable[[], object]) -> int:
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(("format", "chunks"), STREAMS.values(), ids=STREAMS)
def test_twice_the_chunks_twice_the_work(format: str, chunks: Chunks) -> None:
    """Lines run for adding all and asking once; strings are joined once, so no line hides more than its share."""
    short, long = chunks(200), chunks(400)
    first = lines_run(lambda: aggregated(format, short).message())
    second = lines_run(lambda: aggregated(format, long).message())
    assert second <= 2.05 * first


def test_arguments_of_a_megabyte() -> None:
    """50,000 fragments come together to one string."""
    piece = '"0123456789abcdef",'
    start = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "["}}
    chunks = [{"choices": [{"delta": {"tool_calls": [start]}}]}]
    chunks += [{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}}]}] * 50_000
    (call,) = aggregated("auto", chunks).message().tool_calls
    assert call.arguments == "[" + piece * 50_000
