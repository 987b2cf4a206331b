"""Messages: frozen values of four roles. Their JSON form is in `chat_format`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, Literal, Self, cast

from diarist.runtime.errors import InvalidMessageError
from diarist.runtime.parts import (
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolCallPart,
    freeze_layout,
    freeze_parts,
)
from diarist.runtime.values import EMPTY, freeze, freeze_mapping, is_list

Content = str | None | Sequence[Part | str | Mapping[str, Any]]
Status = Literal["complete", "truncated", "error", "cancelled"]

# The keys under which a stored line has tool calls. JSON escapes none of their characters.
_CALL_KEYS = (b'"tool_calls"', b'"function_call"')

_set = object.__setattr__


class _Unset:
    """The default of `content`, which is the same as `text` under the name of its field."""


_UNSET = _Unset()


class _Raw:
    """A message read from a store keeps its line of JSON and decodes it when a field is first asked for.

    An unset slot is the mark: Python then calls `__getattr__`. Reading a window of 2,000 messages costs
    2,000 small objects, not 2,000 decodings.
    """

    __slots__ = ("_raw",)
    _raw: bytes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        from diarist.runtime import chat_format  # the format builds messages: an import at the top is a cycle

        try:
            raw = self._raw
        except AttributeError:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}") from None
        chat_format.fill(cast("Message", self), raw)
        return object.__getattribute__(self, name)


def _content(content: Any) -> str | tuple[Part, ...] | None:
    if content is None or isinstance(content, str):
        return content
    if not is_list(content):
        raise InvalidMessageError(f"content: {type(content).__name__} is no text and no list of parts")
    return freeze_parts(content, "content")


def _calls(given: Sequence[ToolCall | Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(
        call if isinstance(call, ToolCall) else ToolCall.from_dict(call, f"tool_calls[{index}]")
        for index, call in enumerate(given)
    )


@dataclass(frozen=True, slots=True, init=False)
class Message(_Raw):
    """What all messages have. Make one of the four subclasses, or use `Message.from_dict`.

    `content` is what the OpenAI chat format has there: a string, None, or parts. `metadata` is yours: JSON
    values, kept and returned as they are. `extras` holds keys of the format that Diarist has no field for.
    `id` and `created_at` (UTC) are given when the message is stored, where you gave none.
    """

    role: ClassVar[str]
    content: str | tuple[Part, ...] | None
    name: str | None
    metadata: Mapping[str, Any]
    id: str | None
    created_at: datetime | None
    extras: Mapping[str, Any]

    def _init(
        self,
        content: Content,
        name: str | None,
        metadata: Mapping[str, Any] | None,
        id: str | None,
        created_at: Any,
        extras: Mapping[str, Any] | None,
    ) -> None:
        _set(self, "content", content if type(content) is str else _content(content))
        _set(self, "name", name)
        _set(self, "metadata", freeze_mapping(metadata) if metadata else EMPTY)
        _set(self, "id", id)
        if created_at is not None and (not isinstance(created_at, datetime) or created_at.utcoffset() is None):
            raise InvalidMessageError("created_at: no datetime with a time zone")
        _set(self, "created_at", created_at)
        _set(self, "extras", freeze_mapping(extras) if extras else EMPTY)

    @property
    def text(self) -> str:
        """All text parts, joined without a separator; "" if there are none."""
        content = self.content
        if isinstance(content, str):
            return content
        return "".join(part.text for part in content or () if isinstance(part, TextPart))

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts, in its order."""
        return self._content_parts()

    def _content_parts(self) -> tuple[Part, ...]:
        content = self.content
        if isinstance(content, str):
            return (TextPart(content),) if content else ()
        return content or ()

    def same_content(self, other: Message) -> bool:
        """Equality by type, parts, tool calls and names; id, time, metadata and vendor data play no role."""
        return type(self) is type(other) and self._essence() == other._essence()

    def _essence(self) -> tuple[object, ...]:
        return (self.parts, self.name)

    def to_dict(self) -> dict[str, Any]:
        """The OpenAI chat format; what that format lacks rides in extra keys and survives the round trip."""
        from diarist.runtime import chat_format

        return chat_format.to_dict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Message:
        """A message from the OpenAI chat format. Unknown keys survive; a wrong shape is `InvalidMessageError`."""
        from diarist.runtime import chat_format

        return chat_format.from_dict(data)

    def replace(self, **changes: Any) -> Self:
        """A changed copy, as `dataclasses.replace` makes it; `text` may stand for `content`.

        A new text, new reasoning or new calls without a new `layout` have the usual one: the old shows the old text.
        """
        if "text" in changes:
            changes["content"] = changes.pop("text")
        if isinstance(self, AssistantMessage) and changes.keys() & {"content", "reasoning", "tool_calls"}:
            changes.setdefault("layout", ())
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        return type(self)(**{**own, **changes})

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self


@dataclass(frozen=True, slots=True, init=False)
class _Plain(Message):
    def __init__(
        self,
        text: Content = "",
        *,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
        created_at: datetime | None = None,
        extras: Mapping[str, Any] | None = None,
        content: Content | _Unset = _UNSET,
    ) -> None:
        self._init(text if isinstance(content, _Unset) else content, name, metadata, id, created_at, extras)


@dataclass(frozen=True, slots=True, init=False)
class SystemMessage(_Plain):
    """Instructions to the model. In the chat format also under the role `developer` (kept in `extras`)."""

    role: ClassVar[str] = "system"


@dataclass(frozen=True, slots=True, init=False)
class UserMessage(_Plain):
    """What the user said: text, or parts (text, images, files)."""

    role: ClassVar[str] = "user"


@dataclass(frozen=True, slots=True, init=False)
class AssistantMessage(Message):
    """What the model said.

    `reasoning` is what it thought, `refusal` its refusal. `finish_reason`, `usage` (the vendor's keys, tokens),
    `model`, `response_id` and `error` are the vendor's own words. `status` says how a recorded stream ended;
    None for a message that was not recorded. `layout` is the order of the parts where it is not the usual one.
    """

    role: ClassVar[str] = "assistant"
    tool_calls: tuple[ToolCall, ...]
    reasoning: str
    refusal: str | None
    finish_reason: str | None
    usage: Mapping[str, Any] | None
    model: str | None
    response_id: str | None
    status: Status | None
    error: Mapping[str, Any] | None
    layout: tuple[Part, ...]

    def __init__(
        self,
        text: Content = "",
        tool_calls: Sequence[ToolCall | Mapping[str, Any]] = (),
        reasoning: str = "",
        *,
        refusal: str | None = None,
        finish_reason: str | None = None,
        usage: Mapping[str, Any] | None = None,
        model: str | None = None,
        response_id: str | None = None,
        status: Status | None = None,
        error: Mapping[str, Any] | None = None,
        layout: Sequence[Part] = (),
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
        created_at: datetime | None = None,
        extras: Mapping[str, Any] | None = None,
        content: Content | _Unset = _UNSET,
    ) -> None:
        self._init(text if isinstance(content, _Unset) else content, name, metadata, id, created_at, extras)
        _set(self, "tool_calls", _calls(tool_calls) if tool_calls else ())
        _set(self, "reasoning", reasoning)
        _set(self, "refusal", refusal)
        _set(self, "finish_reason", finish_reason)
        _set(self, "usage", None if usage is None else freeze(usage))
        _set(self, "model", model)
        _set(self, "response_id", response_id)
        _set(self, "status", status)
        _set(self, "error", None if error is None else freeze(error))
        _set(self, "layout", freeze_layout(layout, "layout") if layout else ())

    @property
    def parts(self) -> tuple[Part, ...]:
        """Reasoning, text and the places of tool calls, in the order in which they came."""
        if self.layout:
            return self.layout
        reasoning = (ReasoningPart(self.reasoning),) if self.reasoning else ()
        calls = tuple(ToolCallPart(index) for index in range(len(self.tool_calls)))
        return (*reasoning, *self._content_parts(), *calls)

    def may_call(self) -> bool:
        """False if it surely has no tool calls. Doesn't decode a message that has not been looked into yet."""
        try:
            return bool(_slot_of_calls(self))
        except AttributeError:
            raw = self._raw
            return any(key in raw for key in _CALL_KEYS)

    def _essence(self) -> tuple[object, ...]:
        calls = tuple((call.id, call.type, call.name, call.arguments) for call in self.tool_calls)
        return (self.parts, self.name, calls, self.refusal)


# Reads the slot alone: an unset one is an error then, and no reason to decode the line.
_slot_of_calls: Callable[[AssistantMessage], tuple[ToolCall, ...]] = vars(AssistantMessage)["tool_calls"].__get__


@dataclass(frozen=True, slots=True, init=False)
class ToolMessage(Message):
    """A tool's result, for the call whose id is `tool_call_id` (None where the vendor gives calls no ids)."""

    role: ClassVar[str] = "tool"
    tool_call_id: str | None

    def __init__(
        self,
        text: Content = "",
        tool_call_id: str | None = None,
        name: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
        created_at: datetime | None = None,
        extras: Mapping[str, Any] | None = None,
        content: Content | _Unset = _UNSET,
    ) -> None:
        self._init(text if isinstance(content, _Unset) else content, name, metadata, id, created_at, extras)
        _set(self, "tool_call_id", tool_call_id)

    def _essence(self) -> tuple[object, ...]:
        return (self.parts, self.name, self.tool_call_id)
