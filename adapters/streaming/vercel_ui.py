"""A message as the UI message stream of the AI SDK (data protocol v1), for `useChat` in a browser.

https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol#data-stream-protocol. `parts` gives the stream's parts as
JSON values, `sse` their wire form; send it with `HEADERS`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from diarist.runtime.codec import encode
from diarist.runtime.messages import AssistantMessage
from diarist.runtime.parts import ReasoningPart, TextPart, ToolCall, ToolCallPart

DONE = "[DONE]"
HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # nginx would hold the events back
    "x-vercel-ai-ui-message-stream": "v1",
}

UIPart = dict[str, Any] | str
"""A part, or the text `[DONE]` that ends the stream."""

TRUNCATED = "The answer was cut off before its end."
FAILED = "The model failed."

_FINISH = {
    "stop": ("stop", "end_turn", "stop_sequence", "completed"),
    "length": ("length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"),
    "tool-calls": ("tool_calls", "tool_use", "function_call"),
    "content-filter": (
        *("content_filter", "content_filtered", "safety", "refusal", "recitation", "blocklist"),
        *("prohibited_content", "spii", "guardrail_intervened"),
    ),
    "error": ("error", "failed", "malformed_function_call"),
}
_REASONS = {word: reason for reason, words in _FINISH.items() for word in words}


def finish_reason(reason: str | None, *, has_calls: bool) -> str:
    """The AI SDK's word for a vendor's: a stop word beside calls is `tool-calls`, an unknown one `other`."""
    told = _REASONS.get((reason or "").casefold(), "other")
    return "tool-calls" if told == "stop" and has_calls else told


def parts(
    message: AssistantMessage, message_id: str | None = None, *, finish_reasons: bool = True
) -> Iterator[UIPart]:
    """The whole stream of one message, `[DONE]` included.

    `message_id` is the browser's id of the message; without it the message's own id is taken. AI SDK 5
    refuses keys that it doesn't know: `finish_reasons=False` leaves the key out for it.
    """
    yield from start(message_id if message_id is not None else message.id)
    yield from _content(message)
    yield from end(message, finish_reasons)


def start(message_id: str | None) -> Iterator[UIPart]:
    """The parts before any content."""
    yield {"type": "start"} if message_id is None else {"type": "start", "messageId": message_id}
    yield {"type": "start-step"}


def sse(stream: Iterable[UIPart]) -> Iterator[bytes]:
    """Parts as server-sent events."""
    for part in stream:
        yield b"data: " + (part.encode() if isinstance(part, str) else encode(part).strip()) + b"\n\n"


def _content(message: AssistantMessage) -> Iterator[UIPart]:
    """Text, reasoning and calls in their order, the refusal after them; each span has an id of its own."""
    is_whole = message.status in ("complete", None)
    counts = {"text": 0, "reasoning": 0}
    for part in (*message.parts, TextPart(message.refusal or "")):
        if isinstance(part, ToolCallPart):
            yield from _call(message.tool_calls[part.call], part.call, is_whole=is_whole)
        elif isinstance(part, (TextPart, ReasoningPart)) and part.text:
            kind = "text" if isinstance(part, TextPart) else "reasoning"
            yield from _span(kind, f"{kind}-{counts[kind]}", part.text)
            counts[kind] += 1


def _span(kind: str, span_id: str, text: str) -> Iterator[UIPart]:
    yield {"type": f"{kind}-start", "id": span_id}
    yield {"type": f"{kind}-delta", "id": span_id, "delta": text}
    yield {"type": f"{kind}-end", "id": span_id}


def _call(call: ToolCall, position: int, *, is_whole: bool) -> Iterator[UIPart]:
    yield {"type": "tool-input-start", **named(call, position)}
    if call.arguments:
        yield call_delta(call, position, call.arguments)
    if is_whole:
        yield call_input(call, position)


def named(call: ToolCall, position: int) -> dict[str, Any]:
    """What names a call; vendors that give it no id (Gemini, Ollama) get one by its position."""
    return {"toolCallId": call.id or f"call-{position}", "toolName": call.name}


def call_delta(call: ToolCall, position: int, text: str) -> UIPart:
    """A piece of a call's arguments."""
    return {"type": "tool-input-delta", "toolCallId": named(call, position)["toolCallId"], "inputTextDelta": text}


def call_input(call: ToolCall, position: int) -> UIPart:
    """A whole call's arguments, or why they are none."""
    try:
        value = call.arguments if call.type == "custom" else _parsed(call.arguments)
    except (ValueError, RecursionError) as error:
        text = f"The arguments are no JSON: {error}"
        return {"type": "tool-input-error", **named(call, position), "input": call.arguments, "errorText": text}
    return {"type": "tool-input-available", **named(call, position), "input": value}


def _parsed(arguments: str) -> Any:
    return json.loads(arguments, parse_constant=_refuse) if arguments.strip() else {}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")


def end(message: AssistantMessage, finish_reasons: bool = True) -> Iterator[UIPart]:
    """The parts after all content: one terminal part decides how the browser shows the message."""
    if message.status == "cancelled":
        yield {"type": "abort"}
    elif message.status in ("error", "truncated"):
        yield {"type": "error", "errorText": _error_text(message)}
    else:
        yield {"type": "finish-step"}
        reason = finish_reason(message.finish_reason, has_calls=bool(message.tool_calls))
        yield {"type": "finish", "finishReason": reason} if finish_reasons else {"type": "finish"}
    yield DONE


def _error_text(message: AssistantMessage) -> str:
    if message.status == "truncated":
        return TRUNCATED
    text = (message.error or {}).get("message")
    return text if isinstance(text, str) and text else FAILED
