"""Messages in the OpenAI chat format, both ways, without loss.

What the format lacks (metadata, reasoning, status, …) rides in extra keys. A key of ours whose value can't be
ours (a numeric `id`, a `status` of another vocabulary) is the user's own and survives in `extras`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from diarist.runtime.codec import decode
from diarist.runtime.errors import InvalidMessageError
from diarist.runtime.messages import (
    AssistantMessage,
    Message,
    Status,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from diarist.runtime.parts import Part, ToolCall, freeze_parts, layout_from_dict, layout_to_dict
from diarist.runtime.values import EMPTY, freeze, freeze_mapping, thaw

_ROLES: dict[str, type[Message]] = {
    "system": SystemMessage,
    "developer": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": ToolMessage,
    "function": ToolMessage,
}
_STATUSES = frozenset(get_args(Status))
_set = object.__setattr__


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and _parse_time(value) is not None


def _is_status(value: Any) -> bool:
    return isinstance(value, str) and value in _STATUSES


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


# Each field of ours beside role, content and tool calls, with what a value must be to be ours.
_COMMON: dict[str, Callable[[Any], bool]] = {
    "name": _is_text,
    "metadata": _is_mapping,
    "id": _is_text,
    "created_at": _is_time,
}
_ASSISTANT: dict[str, Callable[[Any], bool]] = {
    **_COMMON,
    "reasoning": _is_text,
    "refusal": _is_text,
    "finish_reason": _is_text,
    "usage": _is_mapping,
    "model": _is_text,
    "response_id": _is_text,
    "status": _is_status,
    "error": _is_mapping,
    "parts": _is_list,
}
_TOOL = {**_COMMON, "tool_call_id": _is_text}


def _own_fields(kind: type[Message]) -> dict[str, Callable[[Any], bool]]:
    if kind is AssistantMessage:
        return _ASSISTANT
    return _TOOL if kind is ToolMessage else _COMMON


def to_dict(message: Message) -> dict[str, Any]:
    """`Message.to_dict`."""
    out: dict[str, Any] = {"role": message.role, "content": _content_to(message.content)}
    if message.name is not None:
        out["name"] = message.name
    if isinstance(message, AssistantMessage):
        _assistant_to(message, out)
    elif isinstance(message, ToolMessage) and message.tool_call_id is not None:
        out["tool_call_id"] = message.tool_call_id
    if message.id is not None:
        out["id"] = message.id
    if message.created_at is not None:
        out["created_at"] = message.created_at.isoformat()
    if message.metadata:
        out["metadata"] = thaw(message.metadata)
    if message.extras:
        _extras_to(type(message), message.extras, out)
    return out


def _content_to(content: str | tuple[Part, ...] | None) -> Any:
    if content is None or isinstance(content, str):
        return content
    return [part.to_dict() for part in content]


def _assistant_to(message: AssistantMessage, out: dict[str, Any]) -> None:
    legacy = [call for call in message.tool_calls if call.type == "function_call"]
    if legacy:
        out["function_call"] = legacy[0].to_dict()
    if len(message.tool_calls) > len(legacy):
        out["tool_calls"] = [call.to_dict() for call in message.tool_calls if call.type != "function_call"]
    if message.reasoning:
        out["reasoning"] = message.reasoning
    for key in ("refusal", "finish_reason", "model", "response_id", "status"):
        value = getattr(message, key)
        if value is not None:
            out[key] = value
    if message.usage is not None:
        out["usage"] = thaw(message.usage)
    if message.error is not None:
        out["error"] = thaw(message.error)
    if message.layout:
        out["parts"] = [layout_to_dict(part) for part in message.layout]


def _extras_to(kind: type[Message], extras: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Extras go to the top level, or under `extras` where they would be taken for a field of ours."""
    hidden: dict[str, Any] = {}
    for key in sorted(extras, key="extras".__eq__):
        value = extras[key]
        if key == "role" and isinstance(value, str) and _ROLES.get(value) is kind:
            out["role"] = value
        elif key in out or _is_ours(kind, key, value, out):
            hidden[key] = thaw(value)
        else:
            out[key] = thaw(value)
    if hidden:
        out["extras"] = hidden


def _is_ours(kind: type[Message], key: str, value: Any, present: Mapping[str, Any]) -> bool:
    """Whether `key: value` at the top level would be read as a field of ours."""
    if key == "extras":
        return _is_hidden(kind, value, present)
    if key in ("role", "content"):
        return True
    if key in ("tool_calls", "function_call"):
        return kind is AssistantMessage and bool(value)
    fields = _own_fields(kind)
    return key in fields and fields[key](value)


def _is_hidden(kind: type[Message], value: Any, present: Mapping[str, Any]) -> bool:
    """Whether `extras` is what `_extras_to` hid there: each of its keys would clash with one of ours."""
    if not isinstance(value, Mapping) or not value:
        return False
    hidden: Mapping[str, Any] = value
    clashing = {*_own_fields(kind), "role", "content", "tool_calls", "function_call", "extras"}
    return all(
        key in clashing and (key in present or _is_ours(kind, key, item, present)) for key, item in hidden.items()
    )


def from_dict(data: Any) -> Message:
    """`Message.from_dict`."""
    if not isinstance(data, Mapping):
        raise InvalidMessageError(f"{type(data).__name__} is no message")
    raw: Mapping[str, Any] = data
    role = raw.get("role")
    kind = _ROLES.get(role) if isinstance(role, str) else None
    if kind is None:
        raise InvalidMessageError(f"role: {role!r} is none of {', '.join(_ROLES)}")
    message = kind.__new__(kind)
    _fill(message, kind, raw, trusted=False)
    return message


def fill(message: Message, line: bytes) -> None:
    """Decode a stored line into a message that has not been asked for its fields yet."""
    _fill(message, type(message), decode(line), trusted=True)


def _fill(message: Message, kind: type[Message], raw: Mapping[str, Any], *, trusted: bool) -> None:
    fields = _own_fields(kind)
    own: dict[str, Any] = {}
    extras: dict[str, Any] = {}
    for key, value in raw.items():
        if key in fields and fields[key](value):
            own[key] = value
        elif key == "extras" and _is_hidden(kind, value, raw):
            extras.update(value)
        elif key == "role" or key == "content":
            if key == "role" and value != kind.role:
                extras["role"] = value
        elif not (kind is AssistantMessage and key in ("tool_calls", "function_call") and value):
            extras[key] = value
    _set(message, "content", _content_from(raw.get("content"), trusted))
    _set(message, "name", own.get("name"))
    _set(message, "metadata", freeze_mapping(own.get("metadata")))
    _set(message, "id", own.get("id"))
    _set(message, "created_at", _parse_time(own["created_at"]) if "created_at" in own else None)
    _set(message, "extras", freeze_mapping(extras) if extras else EMPTY)
    if kind is AssistantMessage:
        _fill_assistant(message, raw, own)
    elif kind is ToolMessage:
        _set(message, "tool_call_id", _call_id_from(raw, own))


def _call_id_from(raw: Mapping[str, Any], own: Mapping[str, Any]) -> str | None:
    call_id: str | None = own.get("tool_call_id")
    if call_id is None and raw.get("tool_call_id") is not None:
        raise InvalidMessageError(f"tool_call_id: {type(raw['tool_call_id']).__name__} is no string")
    return call_id


def _content_from(content: Any, trusted: bool) -> str | tuple[Part, ...] | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        return freeze_parts(content, "content")
    if trusted:
        return None
    raise InvalidMessageError(f"content: {type(content).__name__} is no string, null or list of parts")


def _fill_assistant(message: Message, raw: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    _set(message, "tool_calls", _calls_from(raw))
    _set(message, "reasoning", own.get("reasoning", ""))
    for key in ("refusal", "finish_reason", "model", "response_id", "status"):
        _set(message, key, own.get(key))
    _set(message, "usage", freeze(own.get("usage")))
    _set(message, "error", freeze(own.get("error")))
    layout = own.get("parts") or ()
    _set(message, "layout", tuple(layout_from_dict(part, f"parts[{i}]") for i, part in enumerate(layout)))


def _calls_from(raw: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    if legacy := raw.get("function_call"):
        calls.append(ToolCall.from_legacy(legacy, "function_call"))
    listed = raw.get("tool_calls")
    if listed:
        if not isinstance(listed, (list, tuple)):
            raise InvalidMessageError(f"tool_calls: {type(listed).__name__} is no list")
        entries: Sequence[Any] = listed
        calls += [ToolCall.from_dict(call, f"tool_calls[{index}]") for index, call in enumerate(entries)]
    return tuple(calls)


def _parse_time(text: str) -> datetime | None:
    """A time with its zone, or None: a time without zone would mean another moment elsewhere."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
