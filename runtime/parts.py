"""What a message is made of: content parts and tool calls, each with its form in the OpenAI chat format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from diarist.runtime.codec import WIDE, encode
from diarist.runtime.errors import InvalidMessageError
from diarist.runtime.extras import Owns, put, take
from diarist.runtime.values import EMPTY, freeze_mapping, is_mapping, is_some_mapping, thaw


@dataclass(frozen=True, slots=True)
class _WithExtras:
    extras: Mapping[str, Any] = field(default=EMPTY, kw_only=True)
    """Keys that the format or the vendor adds; they survive the round trip."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "extras", freeze_mapping(self.extras))

    def _with_extras(self, out: dict[str, Any]) -> dict[str, Any]:
        if self.extras:
            put(self.extras, out, _owner(*out))
        return out


@dataclass(frozen=True, slots=True)
class TextPart(_WithExtras):
    text: str

    def to_dict(self) -> dict[str, Any]:
        return self._with_extras({"type": "text", "text": self.text})


@dataclass(frozen=True, slots=True)
class ImagePart(_WithExtras):
    """An image by URL; `data:` URLs carry the bytes themselves."""

    url: str
    detail: str | None = None

    def to_dict(self) -> dict[str, Any]:
        image = {"url": self.url} if self.detail is None else {"url": self.url, "detail": self.detail}
        return self._with_extras({"type": "image_url", "image_url": image})


@dataclass(frozen=True, slots=True)
class FilePart(_WithExtras):
    """A file: by the id of an upload, or with its data (a base64 `data:` URL)."""

    filename: str | None = None
    file_id: str | None = None
    file_data: str | None = None

    def to_dict(self) -> dict[str, Any]:
        fields = {"filename": self.filename, "file_id": self.file_id, "file_data": self.file_data}
        file = {key: value for key, value in fields.items() if value is not None}
        return self._with_extras({"type": "file", "file": file})


@dataclass(frozen=True, slots=True)
class ReasoningPart(_WithExtras):
    """What a model thought, with what its vendor wants back (signature, ids) in `extras`."""

    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        return self._with_extras({"type": "reasoning", "text": self.text})


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


def _owner(*names: str) -> Owns:
    return lambda key, _value: key in names


def _rest(data: Mapping[str, Any], *known: str) -> Mapping[str, Any]:
    rest = {key: value for key, value in data.items() if key not in known}
    return take(rest, _owner(*known)) if rest else rest


def _strings(data: Any, allowed: frozenset[str]) -> dict[str, str] | None:
    """`data` as a dict if it is a mapping of some of the allowed keys to strings, else None."""
    if is_mapping(data) and allowed.issuperset(data) and all(isinstance(item, str) for item in data.values()):
        return dict(data)
    return None


def part_from_dict(data: Any, path: str) -> Part:
    """One content part of the OpenAI chat format; a kind or shape that is not known is kept whole."""
    if isinstance(data, str):
        return TextPart(data)
    if not is_mapping(data):
        raise InvalidMessageError(f"{path}: {type(data).__name__} is no content part")
    raw = data
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
    if kind == "reasoning" and isinstance(raw.get("text"), str):
        return ReasoningPart(raw["text"], extras=_rest(raw, "type", "text"))
    if kind == "tool_call" and type(raw.get("call")) is int and len(raw) == 2:
        return ToolCallPart(raw["call"])
    return OpaquePart(raw)


def layout_to_dict(part: Part) -> dict[str, Any]:
    """One of `AssistantMessage.layout`: as in content, but a block kept whole stays whole, whatever it looks like."""
    if isinstance(part, OpaquePart) and _is_ambiguous(part.data):
        return {"type": "opaque", "data": thaw(part.data)}
    return part.to_dict()


def layout_from_dict(data: Any, path: str) -> Part:
    """The inverse of `layout_to_dict`."""
    if is_mapping(data):
        raw = data
        inside = raw.get("data")
        if raw.get("type") == "opaque" and len(raw) == 2 and is_mapping(inside) and _is_ambiguous(inside):
            return OpaquePart(inside)
    return part_from_dict(data, path)


def _is_ambiguous(data: Mapping[str, Any]) -> bool:
    """Whether a block of a vendor would be read as something else."""
    return layout_from_dict(data, "") != OpaquePart(data)


def freeze_layout(parts: Iterable[Any], path: str) -> tuple[Part, ...]:
    """`freeze_parts` for `AssistantMessage.layout`."""
    return tuple(
        part if isinstance(part, Part) else layout_from_dict(part, f"{path}[{index}]")
        for index, part in enumerate(parts)
    )


ToolKind = Literal["function", "custom", "function_call"]
_KINDS = frozenset(get_args(ToolKind))


@dataclass(frozen=True, slots=True)
class ToolCall(_WithExtras):
    """A call that the application must answer. `arguments` is the raw JSON string, valid or not.

    `type` is `function`, `custom` (arguments are free text) or `function_call` (the legacy form, without id).
    """

    id: str | None
    name: str
    arguments: str = "{}"
    type: ToolKind = "function"

    def __post_init__(self) -> None:
        super(ToolCall, self).__post_init__()
        if self.type == "function_call" and self.id is not None:
            raise InvalidMessageError("a function_call has no id")

    def to_dict(self) -> dict[str, Any]:
        if self.type == "function_call":
            return self._with_extras({"name": self.name, "arguments": self.arguments})
        inner = "arguments" if self.type == "function" else "input"
        body = {"name": self.name, inner: self.arguments}
        out: dict[str, Any] = {"id": self.id, "type": self.type, self.type: body}
        if self.extras:
            extras = dict(self.extras)
            if is_some_mapping(extras.get(self.type)):
                put(extras.pop(self.type), body, _owner("name", inner))
            put(extras, out, self._owns)
        return out

    def to_listed(self) -> dict[str, Any]:
        """As an entry of `tool_calls`; a `function_call` is one, in a form of ours, where it isn't the first call."""
        return {"type": self.type, self.type: self.to_dict()} if self.type == "function_call" else self.to_dict()

    def _owns(self, key: str, value: Any) -> bool:
        return _owns_in_call(self.type, key, value)

    @staticmethod
    def from_dict(data: Any, path: str = "tool_call") -> ToolCall:
        if not is_mapping(data):
            raise InvalidMessageError(f"{path}: {type(data).__name__} is no tool call")
        raw = data
        if raw.get("type") == "function_call" and len(raw) == 2:
            return ToolCall.from_legacy(raw.get("function_call"), f"{path}.function_call")
        kind: Literal["function", "custom"] = "custom" if raw.get("type") == "custom" else "function"
        inside = raw.get(kind)
        if not is_mapping(inside):
            raise InvalidMessageError(f"{path}.{kind}: missing, or no mapping")
        body = inside
        inner = "arguments" if kind == "function" else "input"
        extras: dict[str, Any] = {key: value for key, value in raw.items() if key not in ("id", "type", kind)}
        if raw.get("type", kind) != kind:
            extras["type"] = raw["type"]
        if "extras" in extras:
            extras = dict(take(extras, lambda key, value: _owns_in_call(kind, key, value)))
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
        if not is_mapping(data):
            raise InvalidMessageError(f"{path}: {type(data).__name__} is no function call")
        raw = data
        if not isinstance(raw.get("name"), str):
            raise InvalidMessageError(f"{path}.name: missing, or no string")
        extras = _rest(raw, "name", "arguments")
        return ToolCall(None, raw["name"], arguments_text(raw.get("arguments")), "function_call", extras=extras)


def _owns_in_call(kind: str, key: str, value: Any) -> bool:
    """A vendor's own `type` (Moonshot has `builtin_function`) is kept in its place."""
    if key == "type":
        return not (kind == "function" and isinstance(value, str) and value not in _KINDS)
    return key in ("id", kind)


def arguments_text(arguments: Any) -> str:
    """Arguments as the raw string: strings as they are, an object encoded once, nothing is `{}`."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return "{}"
    return encode(arguments).removeprefix(WIDE).decode()


def freeze_parts(parts: Iterable[Any], path: str) -> tuple[Part, ...]:
    """A tuple of parts; dicts are read in the OpenAI format, strings are text."""
    known = (TextPart, ImagePart, FilePart, ReasoningPart, ToolCallPart)
    return tuple(
        part if isinstance(part, known) else _unwrapped(part, f"{path}[{index}]") for index, part in enumerate(parts)
    )


def _unwrapped(part: Any, path: str) -> Part:
    """An opaque part only where the kind is not known: what is stored must read back as what it was."""
    return part_from_dict(part.data if isinstance(part, OpaquePart) else part, path)
