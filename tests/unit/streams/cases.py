"""The stream vectors: what comes in, and the message that must come out. Comparing says what differs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from diarist.adapters.streaming import aggregator
from diarist.runtime.aggregates import Aggregate
from diarist.runtime.messages import AssistantMessage, Message
from diarist.runtime.parts import OpaquePart, Part, ReasoningPart, TextPart, ToolCall, ToolCallPart

VECTORS = Path(__file__).with_name("vectors")
FORMATS = ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama", "bedrock_converse")
Case = dict[str, Any]


def load(name: str) -> list[Case]:
    cases: list[Case] = json.loads((VECTORS / f"{name}.json").read_text(encoding="ascii"))
    return cases


ALL = [case for name in FORMATS for case in load(name)]
WITH_BYTES = [case for case in ALL if "raw" in case]


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def name_of(case: Case) -> str:
    return f"{case['format']}-{case['name']}"


def encoding_of(case: Case) -> Any:
    return "ndjson" if case["format"] == "ollama" else "sse"


def reads_of(case: Case) -> list[bytes]:
    return [read.encode("latin-1") for read in case["raw"]]


def aggregated(format: str, chunks: Iterable[object]) -> Aggregate:
    aggregate = aggregator(format)
    for chunk in chunks:
        aggregate.add(chunk)
    return aggregate


def message_of(format: str, *chunks: object) -> AssistantMessage:
    return aggregated(format, chunks).message()


def shown(part: Part) -> dict[str, Any]:
    """A part in the vectors' words."""
    if isinstance(part, ToolCallPart):
        return {"type": "tool_call", "call": part.call}
    if isinstance(part, OpaquePart):
        return {"type": "opaque", "data": part.data}
    assert isinstance(part, (TextPart, ReasoningPart))
    kind = "text" if isinstance(part, TextPart) else "reasoning"
    return {"type": kind, "text": part.text, "extras": part.extras}


def shown_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments, "extras": call.extras}


def contains(whole: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    return all(key in whole and whole[key] == value for key, value in part.items())


def fits(wanted: Any, got: Any) -> bool:
    """Exactly equal, but `extras` may have more keys."""
    if is_object(wanted) and is_object(got):
        expected, found = wanted, got
        if found.keys() - {"extras"} != expected.keys() - {"extras"}:
            return False
        extras = expected.get("extras", {})
        return contains(found.get("extras", {}), extras) and all(
            found[key] == value for key, value in expected.items() if key != "extras"
        )
    return bool(wanted == got)


def all_fit(wanted: Sequence[Any], got: Sequence[Any]) -> bool:
    return len(wanted) == len(got) and all(map(fits, wanted, got))


def differences(expect: Mapping[str, Any], message: AssistantMessage) -> dict[str, Any]:
    """Each field of the expectation that the message doesn't meet, with what it has there."""
    plain = {
        "text": message.text,
        "reasoning": message.reasoning,
        "refusal": message.refusal,
        "finish_reason": message.finish_reason,
        "model": message.model,
        "id": message.response_id,
        "usage": message.usage,
        "error": message.error,
    }
    found: dict[str, Any] = {key: value for key, value in plain.items() if key in expect and expect[key] != value}
    if not contains(message.extras, expect.get("extras", {})):
        found["extras"] = message.extras
    if not all_fit(expect["tool_calls"], calls := [shown_call(call) for call in message.tool_calls]):
        found["tool_calls"] = calls
    if "parts" in expect and not all_fit(expect["parts"], parts := [shown(part) for part in message.parts]):
        found["parts"] = parts
    return found


def assert_reads_back(message: AssistantMessage) -> None:
    """Through the chat format, and through its JSON, without loss."""
    assert Message.from_dict(message.to_dict()) == message
    assert Message.from_dict(json.loads(json.dumps(message.to_dict()))) == message
