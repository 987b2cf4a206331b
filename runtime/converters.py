"""Messages as the two most common model interfaces take them.

Both leave out what no model may see (`matching`) and put the system messages first. `show_unmatched` keeps the
unmatched tool messages: for `MessageWindow.spring_ai`, whose original has no such rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diarist.runtime import anthropic_blocks as blocks
from diarist.runtime.matching import for_model, rounds, systems_first
from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage
from diarist.runtime.parts import OpaquePart, Part, ReasoningPart, TextPart, ToolCall, ToolCallPart
from diarist.runtime.values import thaw
from diarist.runtime.wire_ids import WireIds, anthropic_ids, openai_ids


def _shown(messages: Sequence[Message], show_unmatched: bool) -> tuple[Message, ...]:
    return systems_first(tuple(messages)) if show_unmatched else for_model(messages)


def to_openai(messages: Sequence[Message], *, show_unmatched: bool = False) -> list[dict[str, Any]]:
    """The `messages` of OpenAI's Chat Completions: its own keys only, without ids, metadata, status and reasoning.

    Content parts stay as they were given. Calls without id get one, and so do their results. Of the keys that
    vendors add one stays: `extra_content` of a tool call, because Gemini's OpenAI-compatible endpoint refuses a
    call that comes back without its thought signature.

    Source: the request types of OpenAI's API reference (`ChatCompletionRequestMessage`), and
    https://ai.google.dev/gemini-api/docs/thought-signatures.
    """
    shown = _shown(messages, show_unmatched)
    found = rounds(shown)
    ids = openai_ids(found)
    answered = {place: item.calls[position] for item in found for position, place in item.answers.items()}
    out: list[dict[str, Any]] = []
    for place, message in enumerate(shown):
        if isinstance(message, AssistantMessage):
            out.append(_openai_assistant(message, place, ids))
        elif isinstance(message, ToolMessage):
            out.append(_openai_result(message, answered.get(place), ids.results.get(place)))
        else:
            out.append(_named({"role": _role(message), "content": _openai_content(message)}, message))
    return out


def _role(message: Message) -> str:
    if isinstance(message, SystemMessage) and message.extras.get("role") == "developer":
        return "developer"
    return message.role


def _named(out: dict[str, Any], message: Message) -> dict[str, Any]:
    if message.name is not None:
        out["name"] = message.name
    return out


def _openai_content(message: Message) -> Any:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    return [part.to_dict() for part in content if not isinstance(part, ReasoningPart | ToolCallPart)]


def _openai_assistant(message: AssistantMessage, place: int, ids: WireIds) -> dict[str, Any]:
    out = _named({"role": "assistant", "content": _openai_answer(message)}, message)
    if message.refusal is not None:
        out["refusal"] = message.refusal
    calls: list[dict[str, Any]] = []
    for position, call in enumerate(message.tool_calls):
        if call.type == "function_call":
            out["function_call"] = {"name": call.name, "arguments": call.arguments}
        else:
            calls.append(_openai_call(call, ids.calls[place, position]))
    if calls:
        out["tool_calls"] = calls
    return out


def _openai_answer(message: AssistantMessage) -> Any:
    """An assistant's content: text and refusal parts only; null is allowed only beside calls or a refusal."""
    content: Any = message.content
    if isinstance(message.content, tuple):
        parts = [_openai_answer_part(part) for part in message.content]
        content = [part for part in parts if part is not None] or None
    if content is None and not (message.tool_calls or message.refusal):
        return ""
    return content


def _openai_answer_part(part: Part) -> dict[str, Any] | None:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, OpaquePart) and part.data.get("type") == "refusal":
        return part.to_dict()
    return None


def _openai_call(call: ToolCall, call_id: str) -> dict[str, Any]:
    inner = "input" if call.type == "custom" else "arguments"
    out: dict[str, Any] = {"id": call_id, "type": call.type, call.type: {"name": call.name, inner: call.arguments}}
    if "extra_content" in call.extras:
        out["extra_content"] = thaw(call.extras["extra_content"])
    return out


def _openai_result(message: ToolMessage, call: ToolCall | None, call_id: str | None) -> dict[str, Any]:
    if call is not None and call.type == "function_call":
        return {"role": "function", "name": message.name or call.name, "content": message.text}
    out: dict[str, Any] = {"role": "tool", "content": _openai_content(message)}
    out["tool_call_id"] = call_id or message.tool_call_id or ""
    return _named(out, message)


def to_anthropic(messages: Sequence[Message], *, show_unmatched: bool = False) -> dict[str, Any]:
    """`messages` and, if there are system messages, `system`: keyword arguments for Anthropic's Messages API.

    System text is joined with blank lines (blocks, where a part carries `cache_control`). Messages of one role in
    a row become one, so the results of a round are one user message, in front of what the user says next. Signed
    and redacted thinking goes back unchanged, in the place where it came; unsigned reasoning (of other vendors)
    doesn't. Blank text, which Anthropic refuses, is left out, and so are messages that are empty without it and
    parts that Anthropic has no block for. A last assistant message loses its trailing white space.

    Source: platform.claude.com, "Messages API reference" (roles, `system`), "Handle tool calls" (`tool_result`
    right after `tool_use` and first in its message), "Extended thinking" (blocks return unmodified), "Vision",
    "PDF support" and "Citations" (sources of image and document blocks).
    """
    shown = _shown(messages, show_unmatched)
    ids = anthropic_ids(rounds(shown))
    out: list[dict[str, Any]] = []
    system: list[dict[str, Any]] = []
    for place, message in enumerate(shown):
        if isinstance(message, SystemMessage):
            system += blocks.text_blocks(message)
        elif isinstance(message, AssistantMessage):
            calls = [ids.calls[place, position] for position in range(len(message.tool_calls))]
            _put(out, "assistant", blocks.assistant_blocks(message, calls))
        elif isinstance(message, ToolMessage):
            call_id = ids.results.get(place) or message.tool_call_id or ""
            _put(out, "user", [blocks.result_block(message, call_id)])
        else:
            _put(out, "user", blocks.user_blocks(message))
    if out and out[-1]["role"] == "assistant":
        _strip_end(out[-1]["content"])
    result: dict[str, Any] = {"messages": out}
    if system:
        result["system"] = _system(system)
    return result


def _put(out: list[dict[str, Any]], role: str, content: list[dict[str, Any]]) -> None:
    if not content:
        return
    if out and out[-1]["role"] == role:
        out[-1]["content"] += content
    else:
        out.append({"role": role, "content": content})


def _strip_end(content: list[dict[str, Any]]) -> None:
    """Anthropic continues a last assistant message, and refuses one that ends with white space."""
    if content[-1]["type"] == "text":
        content[-1]["text"] = content[-1]["text"].rstrip()


def _system(content: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if any(set(block) != {"type", "text"} for block in content):
        return content
    return "\n\n".join(block["text"] for block in content)
