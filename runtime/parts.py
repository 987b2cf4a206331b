"""What a message is made of: content parts and tool calls, each with its form in the OpenAI chat format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from diarist.runtime.codec import WIDE, encode
from diarist.runtime.errors import InvalidMessageError
from diarist.runtime.values import EMPTY, freeze_mapping, thaw


@dataclass(frozen=True, slots=True)
class _WithExtras:
    extras: Mapping[str, Any] = field(default=EMPTY, kw_only=True)
    """Keys that the format or the vendor adds; they survive the round trip."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "extras", freeze_mapping(self.extras))


@dataclass(frozen=True, slots=True)
class TextPart(_WithExtras):
    text: str

    def to_dict(self) -> dict[str, Any]:
        return {"type": "text", "text": self.text, **thaw(self.extras)}


@dataclass(frozen=True, slots=True)
class ImagePart(_WithExtras):
    """An image by URL; `data:` URLs carry the bytes themselves."""

    url: str
    detail: str | None = None

    def to_dict(self) -> dict[str, Any]:
        image = {"url": self.url} if self.detail is None else {"url": self.url, "detail": self.detail}
        return {"type": "image_url", "image_url": image, **thaw(self.extras)}


@dataclass(frozen=True, slots=True)
class FilePart(_WithExtras):
    """A file: by the id of an upload, or with its data (a base64 `data:` URL)."""

    filename: str | None = None
    file_id: str | None = None
    file_data: str | None = None

    def to_dict(self) -> dict[str, Any]:
        fields = {"filename": self.filename, "file_id": self.file_id, "file_data": self.file_data}
        return {
            "type": "file",
            "file": {key: value for key, value in fields.items() if value is not None},
            **thaw(self.extras),
        }


@dataclass(frozen=True, slots=True)
class ReasoningPart(_WithExtras):
    """What a model thought, with what its vendor wants back (signature, ids) in `extras`."""

    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"type": "reasoning", "text": self.text, **thaw(self.extras)}


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """The place of a tool call among the parts: `call` is its position in `tool_calls`."""

    call: int

    def to_dict(self) -> dict[str, Any]:
        return {"type": "tool_call", "call": self.call}


@dataclass(frozen=True, slots=True)
class OpaquePart:
    """A part of a kind that Diarist doesn't know, kept whole."""

    data: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", freeze_mapping(self.data))

    def to_dict(self) -> dict[str, Any]:
        copy: dict[str, Any] = thaw(self.data)
        return copy


Part = TextPart | ImagePart | FilePart | ReasoningPart | ToolCallPart | OpaquePart

_IMAGE_KEYS = frozenset({"url", "detail"})
_FILE_KEYS = frozenset({"filename", "file_id", "file_data"})
_SPAN_KEYS = frozenset({"type", "text", "extras"})


def _rest(data: Mapping[str, Any], *known: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in known}


def _strings(data: Any, allowed: frozenset[str]) -> dict[str, str] | None:
    """`data` as a dict if it is a mapping of some of the allowed keys to strings, else None."""
    if not isinstance(data, Mapping):
        return None
    mapping: Mapping[Any, Any] = data
    if allowed.issuperset(mapping) and all(isinstance(item, str) for item in mapping.values()):
        return dict(mapping)
    return None


def part_from_dict(data: Any, path: str) -> Part:
    """One content part of the OpenAI chat format; a kind or shape that is not known is kept whole."""
    if isinstance(data, str):
        return TextPart(data)
    if not isinstance(data, Mapping):
        raise InvalidMessageError(f"{path}: {type(data).__name__} is no content part")
    raw: Mapping[str, Any] = data
    kind = raw.get("type")
    if kind == "text" and isinstance(raw.get("text"), str):
        return TextPart(raw["text"], extras=_rest(raw, "type", "text"))
    if kind == "image_url":
        image = _strings(raw.get("image_url"), _IMAGE_KEYS)
        if image and "url" in image:
            return ImagePart(image["url"], image.get("detail"), extras=_rest(raw, "type", "image_url"))
    if kind == "file":
        file = _strings(raw.get("file"), _FILE_KEYS)
        if file is not None:
            return FilePart(**file, extras=_rest(raw, "type", "file"))
    return OpaquePart(raw)


def layout_to_dict(part: Part) -> dict[str, Any]:
    """One of `AssistantMessage.parts` in a form of its own, which reads back exactly.

    The form of `content` is ambiguous there: vendor data may have keys like `type`, and a block that is kept
    whole may look like a part of ours. So vendor data stands under `extras`, and such a block under `data`.
    """
    if isinstance(part, OpaquePart):
        return {"type": "opaque", "data": thaw(part.data)}
    if isinstance(part, (TextPart, ReasoningPart)) and part.extras:
        kind = "text" if isinstance(part, TextPart) else "reasoning"
        return {"type": kind, "text": part.text, "extras": thaw(part.extras)}
    return part.to_dict()


def layout_from_dict(data: Any, path: str) -> Part:
    """The inverse of `layout_to_dict`."""
    if isinstance(data, Mapping):
        raw: Mapping[str, Any] = data
        kind, text = raw.get("type"), raw.get("text")
        if kind in ("text", "reasoning") and isinstance(text, str) and raw.keys() <= _SPAN_KEYS:
            extras = raw.get("extras")
            if extras is None or isinstance(extras, Mapping):
                return (TextPart if kind == "text" else ReasoningPart)(text, extras=extras or EMPTY)
        if kind == "tool_call" and type(raw.get("call")) is int and len(raw) == 2:
            return ToolCallPart(raw["call"])
        if kind == "opaque" and isinstance(raw.get("data"), Mapping) and len(raw) == 2:
            return OpaquePart(raw["data"])
    return part_from_dict(data, path)


def _with_extras(own: dict[str, Any], extras: dict[str, Any]) -> dict[str, Any]:
    """`own` and the extras; those whose keys it has itself (an item's `id`) stand under `extras`."""
    hidden = {key: value for key, value in extras.items() if key in own or key == "extras"}
    own.update((key, value) for key, value in extras.items() if key not in hidden)
    if hidden:
        own["extras"] = hidden
    return own


def _call_extras(raw: Mapping[str, Any], *own: str) -> dict[str, Any]:
    """The inverse of `_with_extras`; an `extras` that it can't have written is a key like any other."""
    extras = _rest(raw, *own)
    hidden = extras.get("extras")
    if isinstance(hidden, Mapping) and hidden and all(key in (*own, "extras") for key in hidden):
        del extras["extras"]
        extras.update(hidden)
    return extras


ToolKind = Literal["function", "custom", "function_call"]


@dataclass(frozen=True, slots=True)
class ToolCall(_WithExtras):
    """A call that the application must answer. `arguments` is the raw JSON string, valid or not.

    `type` is `function`, `custom` (arguments are free text) or `function_call` (the legacy form, without id).
    """

    id: str | None
    name: str
    arguments: str = "{}"
    type: ToolKind = "function"

    def to_dict(self) -> dict[str, Any]:
        extras = thaw(self.extras)
        if self.type == "function_call":
            return _with_extras({"name": self.name, "arguments": self.arguments}, extras)
        inner = "arguments" if self.type == "function" else "input"
        body = {"name": self.name, inner: self.arguments}
        more = extras.get(self.type)
        if isinstance(more, dict) and more and not body.keys() & more.keys():
            body.update(extras.pop(self.type))
        return _with_extras({"id": self.id, "type": self.type, self.type: body}, extras)

    @staticmethod
    def from_dict(data: Any, path: str = "tool_call") -> ToolCall:
        if not isinstance(data, Mapping):
            raise InvalidMessageError(f"{path}: {type(data).__name__} is no tool call")
        raw: Mapping[str, Any] = data
        kind: Literal["function", "custom"] = "custom" if raw.get("type") == "custom" else "function"
        inside = raw.get(kind)
        if not isinstance(inside, Mapping):
            raise InvalidMessageError(f"{path}.{kind}: missing, or no mapping")
        body: Mapping[str, Any] = inside
        inner = "arguments" if kind == "function" else "input"
        extras = _call_extras(raw, "id", "type", kind)
        if more := _rest(body, "name", inner):
            extras[kind] = more
        call_id = raw.get("id")
        if not (call_id is None or isinstance(call_id, str)):
            raise InvalidMessageError(f"{path}.id: {type(call_id).__name__} is no string")
        name, arguments = body.get("name"), body.get(inner)
        if not isinstance(name, str):
            raise InvalidMessageError(f"{path}.{kind}.name: missing, or no string")
        return ToolCall(call_id, name, arguments_text(arguments), kind, extras=extras)

    @staticmethod
    def from_legacy(data: Any, path: str) -> ToolCall:
        """The deprecated `function_call` of the chat format."""
        if not isinstance(data, Mapping):
            raise InvalidMessageError(f"{path}: {type(data).__name__} is no function call")
        raw: Mapping[str, Any] = data
        if not isinstance(raw.get("name"), str):
            raise InvalidMessageError(f"{path}.name: missing, or no string")
        extras = _call_extras(raw, "name", "arguments")
        return ToolCall(None, raw["name"], arguments_text(raw.get("arguments")), "function_call", extras=extras)


def arguments_text(arguments: Any) -> str:
    """Arguments as the raw string: strings as they are, an object encoded once, nothing is `{}`."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return "{}"
    return encode(arguments).removeprefix(WIDE).decode()


def freeze_parts(parts: Any, path: str) -> tuple[Part, ...]:
    """A tuple of parts; dicts are read in the OpenAI format, strings are text."""
    known = (TextPart, ImagePart, FilePart, ReasoningPart, ToolCallPart, OpaquePart)
    return tuple(
        part if isinstance(part, known) else part_from_dict(part, f"{path}[{index}]")
        for index, part in enumerate(parts)
    )
