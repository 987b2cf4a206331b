"""Content blocks of Anthropic's Messages API out of a message's parts, for `converters.to_anthropic`."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

from diarist.runtime.messages import AssistantMessage, Message, ToolMessage
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
from diarist.runtime.values import is_dict, is_list, thaw

Block = dict[str, Any]

# Kinds that stand for themselves in requests; also every `…_tool_use` and `…_tool_result` of a server tool.
_NATIVE = frozenset({"thinking", "redacted_thinking", "tool_use", "tool_result", "server_tool_use"})
_NATIVE_INPUT = frozenset({"image", "document", "search_result", "container_upload"})


def text_blocks(message: Message) -> list[Block]:
    """Only the text of a message."""
    return [block for part in message.parts if isinstance(part, TextPart) for block in _input_blocks(part)]


def user_blocks(message: Message) -> list[Block]:
    """What a user said."""
    return [block for part in message.parts for block in _input_blocks(part)]


def result_block(message: ToolMessage, call_id: str) -> Block:
    """A tool's result. `is_error: true` among the extras marks a failure."""
    out: Block = {"type": "tool_result", "tool_use_id": call_id}
    content = message.content if isinstance(message.content, str) else user_blocks(message)
    if content:
        out["content"] = content
    if message.extras.get("is_error") is True:
        out["is_error"] = True
    return _cached(out, message.extras)


def assistant_blocks(message: AssistantMessage, call_ids: Sequence[str]) -> list[Block]:
    """What the model said, in the order in which it came. `call_ids`: one for each of its tool calls."""
    out: list[Block] = []
    for part in message.parts:
        if isinstance(part, ReasoningPart):
            out += _thinking(part)
        elif isinstance(part, TextPart):
            out += _text(part)
        elif isinstance(part, OpaquePart) and _is_native(part.data):
            if not (call_ids and part.data["type"] == "tool_use"):  # the same calls a second time
                out.append(thaw(part.data))
        elif isinstance(part, ToolCallPart) and 0 <= part.call < len(call_ids):
            out.append(_tool_use(message.tool_calls[part.call], call_ids[part.call]))
    if message.refusal and not any(block["type"] == "text" for block in out):
        out += _text(TextPart(message.refusal))
    if not any(_is_thinking(block) for block in out):
        out = _thinking_of_extras(message) + out
    while out and _is_thinking(out[-1]):  # "The final block in an assistant message cannot be `thinking`."
        out.pop()
    return out


def _is_thinking(block: Block) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


def _thinking(part: ReasoningPart) -> list[Block]:
    """Anthropic takes back only what it signed."""
    signature = part.extras.get("signature")
    if not isinstance(signature, str) or not signature:
        return []
    return [{"type": "thinking", "thinking": part.text, "signature": signature}]


def _thinking_of_extras(message: AssistantMessage) -> list[Block]:
    """`thinking_blocks`, where gateways that speak the OpenAI format keep Anthropic's blocks."""
    listed = message.extras.get("thinking_blocks")
    if not is_list(listed):
        return []
    return [thaw(entry) for entry in listed if is_dict(entry) and _is_whole_thinking(entry)]


def _is_whole_thinking(block: Mapping[str, Any]) -> bool:
    if block.get("type") == "thinking":
        return bool(block.get("signature"))
    return block.get("type") == "redacted_thinking" and bool(block.get("data"))


def _tool_use(call: ToolCall, call_id: str) -> Block:
    return {"type": "tool_use", "id": call_id, "name": call.name, "input": _input_of(call)}


def _input_of(call: ToolCall) -> dict[str, Any]:
    """Arguments as an object; `{}` where they are none. The free text of a custom tool is its `input`."""
    if call.type == "custom":
        return {"input": call.arguments}
    try:
        value = json.loads(call.arguments, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {}
    return value if is_dict(value) else {}


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _input_blocks(part: Part) -> list[Block]:
    """A part of the user's, or of a result; nothing if Anthropic has no block for it."""
    if isinstance(part, TextPart):
        return _text(part)
    if isinstance(part, ImagePart):
        return [_cached({"type": "image", "source": _image_source(part.url)}, part.extras)]
    if isinstance(part, FilePart):
        return _file(part)
    if isinstance(part, OpaquePart) and (_is_native(part.data) or part.data.get("type") in _NATIVE_INPUT):
        return [thaw(part.data)]
    return []


def _text(part: TextPart) -> list[Block]:
    if not part.text.strip():
        return []
    block: Block = {"type": "text", "text": part.text}
    if part.extras.get("citations"):
        block["citations"] = thaw(part.extras["citations"])
    return [_cached(block, part.extras)]


def _is_native(data: Mapping[str, Any]) -> bool:
    kind = data.get("type")
    return isinstance(kind, str) and (kind in _NATIVE or kind.endswith(("_tool_use", "_tool_result")))


def _cached(block: Block, extras: Mapping[str, Any]) -> Block:
    if extras.get("cache_control"):
        block["cache_control"] = thaw(extras["cache_control"])
    return block


def _image_source(url: str) -> Block:
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    media_type, data = _data_url(url)
    return {"type": "base64", "media_type": media_type or "image/png", "data": data}


def _file(part: FilePart) -> list[Block]:
    if part.file_data:
        source = _file_source(part.file_data)
        if source.get("media_type", "").startswith("image/"):
            return [_cached({"type": "image", "source": source}, part.extras)]
    elif part.file_id:
        source = {"type": "file", "file_id": part.file_id}
    else:
        return []
    block: Block = {"type": "document", "source": source}
    if part.filename:
        block["title"] = part.filename
    return [_cached(block, part.extras)]


def _file_source(data: str) -> Block:
    if data.startswith(("http://", "https://")):
        return {"type": "url", "url": data}
    media_type = ""
    if data.startswith("data:"):
        media_type, data = _data_url(data)
    media_type = media_type or "application/pdf"
    if media_type.startswith("text/"):
        text = _decoded(data)
        if text is not None:
            return {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "base64", "media_type": media_type, "data": data}


def _decoded(data: str) -> str | None:
    try:
        return b64decode(data, validate=True).decode()
    except ValueError:
        return None


def _data_url(url: str) -> tuple[str, str]:
    """Media type and base64 text of a `data:` URL (RFC 2397; its other form is percent-encoded)."""
    head, _, data = url[len("data:") :].partition(",")
    media_type, *flags = (item.strip() for item in head.split(";"))
    if "base64" not in flags:
        data = b64encode(unquote_to_bytes(data)).decode()
    return media_type.lower(), data
