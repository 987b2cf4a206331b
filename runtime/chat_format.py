"""Messages in the OpenAI chat format, both ways, without loss.

What the format lacks (metadata, reasoning, status, …) rides in extra keys. A key of ours whose value can't be
ours (a numeric `id`, a `status` of another vocabulary) is the user's own and survives in `extras`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from diarist.runtime.codec import decode
from diarist.runtime.errors import InvalidMessageError
from diarist.runtime.extras import Owns, put, take
from diarist.runtime.messages import (
    AssistantMessage,
    Message,
    Status,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from diarist.runtime.parts import Part, ToolCall, freeze_layout, freeze_parts, layout_to_dict
from diarist.runtime.values import EMPTY, freeze, freeze_mapping, is_list, is_mapping, is_some_mapping, thaw

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


Test = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_some_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_some(value: Any) -> bool:
    return bool(value)


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and _parse_time(value) is not None


def _is_status(value: Any) -> bool:
    return isinstance(value, str) and value in _STATUSES


def _is_layout(value: Any) -> bool:
    if not is_list(value) or not value:
        return False
    entries: Sequence[Any] = value
    return all(isinstance(entry, Mapping) for entry in entries)


def _is_given(value: Any) -> bool:
    return value is not None


def _always(_value: Any) -> bool:
    return True


def _is_no_alias(kind: type[Message]) -> Test:
    """A role that only this kind has, like `developer`, is kept among the extras."""
    return lambda value: not (isinstance(value, str) and value != kind.role and _ROLES.get(value) is kind)


# Each field of ours, with what a value must be to be ours. What `to_dict` leaves out (an empty text or mapping)
# is the user's own where it is given.
_COMMON: dict[str, Test] = {
    "content": _always,
    "name": _is_text,
    "metadata": is_some_mapping,
    "id": _is_text,
    "created_at": _is_time,
}
_FIELDS: dict[type[Message], dict[str, Test]] = {
    SystemMessage: {"role": _is_no_alias(SystemMessage), **_COMMON},
    UserMessage: {"role": _is_no_alias(UserMessage), **_COMMON},
    AssistantMessage: {
        "role": _is_no_alias(AssistantMessage),
        **_COMMON,
        "tool_calls": _is_some,
        "function_call": _is_some,
        "reasoning": _is_some_text,
        "refusal": _is_text,
        "finish_reason": _is_text,
        "usage": _is_mapping,
        "model": _is_text,
        "response_id": _is_text,
        "status": _is_status,
        "error": _is_mapping,
        "parts": _is_layout,
    },
    ToolMessage: {"role": _is_no_alias(ToolMessage), **_COMMON, "tool_call_id": _is_given},
}


def _owner(kind: type[Message], present: Iterable[str]) -> Owns:
    """Which extras would pass for a field of ours, in a dict that has the fields `present`."""
    fields = _FIELDS[kind]
    taken = {*present} - {"role"}
    return lambda key, value: key in taken or (key in fields and fields[key](value))


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
        put(message.extras, out, _owner(type(message), out))
    return out


def _content_to(content: str | tuple[Part, ...] | None) -> Any:
    if content is None or isinstance(content, str):
        return content
    return [part.to_dict() for part in content]


def _assistant_to(message: AssistantMessage, out: dict[str, Any]) -> None:
    calls = message.tool_calls
    if calls and calls[0].type == "function_call":
        out["function_call"] = calls[0].to_dict()
        calls = calls[1:]
    if calls:
        out["tool_calls"] = [call.to_listed() for call in calls]
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


def from_dict(data: Any) -> Message:
    """`Message.from_dict`."""
    if not is_mapping(data):
        raise InvalidMessageError(f"{type(data).__name__} is no message")
    raw = data
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
    fields = _FIELDS[kind]
    own: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in raw.items():
        test = fields.get(key)
        if test is not None and test(value):
            own[key] = value
        else:
            rest[key] = value
    extras = take(rest, _owner(kind, own)) if "extras" in rest else rest
    _set(message, "content", _content_from(raw.get("content"), trusted))
    _set(message, "name", own.get("name"))
    _set(message, "metadata", freeze_mapping(own.get("metadata")))
    _set(message, "id", own.get("id"))
    _set(message, "created_at", _parse_time(own["created_at"]) if "created_at" in own else None)
    _set(message, "extras", freeze_mapping(extras) if extras else EMPTY)
    if kind is AssistantMessage:
        _fill_assistant(message, raw, own)
    elif kind is ToolMessage:
        _set(message, "tool_call_id", _call_id_from(own))


def _call_id_from(own: Mapping[str, Any]) -> str | None:
    call_id = own.get("tool_call_id")
    if call_id is not None and not isinstance(call_id, str):
        raise InvalidMessageError(f"tool_call_id: {type(call_id).__name__} is no string")
    return call_id


def _content_from(content: Any, trusted: bool) -> str | tuple[Part, ...] | None:
    if content is None or isinstance(content, str):
        return content
    if is_list(content):
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
    _set(message, "layout", freeze_layout(layout, "parts"))


def _calls_from(raw: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    legacy = raw.get("function_call")
    if legacy:
        calls.append(ToolCall.from_legacy(legacy, "function_call"))
    listed = raw.get("tool_calls")
    if listed:
        if not is_list(listed):
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
