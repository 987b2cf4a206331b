"""Messages on their way in: read, checked, stamped with id and time, and encoded, before anything is queued."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

from diarist.runtime.chat_format import from_dict, to_dict
from diarist.runtime.clock import Environment
from diarist.runtime.codec import encode
from diarist.runtime.errors import InvalidMessageError
from diarist.runtime.ids import id_supply
from diarist.runtime.log import lazy_message, line_of
from diarist.runtime.messages import AssistantMessage, Message, Status, SystemMessage, UserMessage
from diarist.runtime.values import check

Given = Message | Mapping[str, Any]
"""What a caller may pass as a message: one of ours, or a dict in the OpenAI chat format."""


class Intake:
    """Turns what callers pass into lines of the log. `message_bytes`: the most that one encoded message may have."""

    def __init__(self, environment: Environment, message_bytes: int) -> None:
        self._clock = environment.clock
        self._new_id = id_supply(environment.random)
        self._second = -1
        self._prefix = ""
        self._message_bytes = message_bytes

    def lines(self, given: Iterable[Given]) -> list[bytes]:
        """The messages, encoded; `InvalidMessageError` names the one, and the path in it, that can't be stored."""
        now: str | None = None
        lines: list[bytes] = []
        for index, item in enumerate(given):
            if now is None:
                now = self._now()
            try:
                lines.append(self._line(item, now))
            except InvalidMessageError as error:
                raise InvalidMessageError(f"messages[{index}]: {error}") from error.__cause__
        return lines

    def _now(self) -> str:
        """The time in ISO format. All but the fraction is kept for a second: it takes most of the time."""
        moment = self._clock.time()
        second = int(moment)
        micros = round((moment - second) * 1e6)
        if not 0 < micros < 1_000_000:
            return datetime.fromtimestamp(moment, UTC).isoformat()
        if second != self._second:
            self._second, self._prefix = second, datetime.fromtimestamp(second, UTC).isoformat()[:19]
        return f"{self._prefix}.{micros:06d}+00:00"

    def _line(self, item: Given, now: str) -> bytes:
        message = item if isinstance(item, Message) else from_dict(item)
        if _is_plain(message):
            line = line_of(
                {"role": message.role, "content": message.content, "id": self._new_id(), "created_at": now}
            )
        else:
            if message is item:
                check_types(message)
            if "id" in message.extras or "created_at" in message.extras:
                # Keys of the caller's own with these names would be taken for ours; beside ours they are not.
                message = self._named(message, now)
            data = checked_dict(message)
            if message is item:
                from_dict(data)
            if message.id is None:
                data["id"] = self._new_id()
            if message.created_at is None:
                data["created_at"] = now
            line = line_of(data)
        if len(line) > self._message_bytes:
            raise InvalidMessageError(f"{len(line)} bytes, at most {self._message_bytes}")
        return line

    def _named(self, message: Message, now: str) -> Message:
        created = message.created_at or datetime.fromisoformat(now)
        return message.replace(id=message.id or self._new_id(), created_at=created)

    def stamped(self, given: Iterable[Given]) -> list[Message]:
        """The messages as they will be stored."""
        return [lazy_message(line) for line in self.lines(given)]


def _is_plain(message: Message) -> bool:
    """A message of only text: no dict of any depth has to be looked into."""
    kind = type(message)
    return (
        (kind is UserMessage or kind is SystemMessage or (kind is AssistantMessage and _is_bare(message)))
        and type(message.content) is str
        and not message.extras
        and not message.metadata
        and message.name is None
        and message.id is None
        and message.created_at is None
    )


def _is_bare(message: Message) -> bool:
    """An assistant's message with none of the fields that only assistants' messages have."""
    assert isinstance(message, AssistantMessage)
    return not (message.tool_calls or message.reasoning or message.layout) and (
        message.refusal is None
        and message.finish_reason is None
        and message.usage is None
        and message.model is None
        and message.response_id is None
        and message.status is None
        and message.error is None
    )


_TEXTS = ("name", "id", "tool_call_id", "refusal", "finish_reason", "model", "response_id")


def check_types(message: Message) -> None:
    """Refuse a field of the wrong type: it would be written, and could not be read again."""
    for name in _TEXTS:
        _expect(getattr(message, name, None), str, name)
    _expect(message.created_at, datetime, "created_at")
    if isinstance(message, AssistantMessage):
        if not isinstance(message.reasoning, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidMessageError(f"reasoning: {type(message.reasoning).__name__} is no string")
        if message.status is not None and message.status not in get_args(Status):
            raise InvalidMessageError(f"status: {message.status!r} is none of {', '.join(get_args(Status))}")
        _expect(message.usage, Mapping, "usage")
        _expect(message.error, Mapping, "error")
        for index, part in enumerate(message.layout):
            if not hasattr(part, "to_dict"):
                raise InvalidMessageError(f"layout[{index}]: {type(part).__name__} is no part")


def _expect(value: object, kind: type[Any], name: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise InvalidMessageError(f"{name}: {type(value).__name__} instead of {kind.__name__}")


def checked_dict(message: Message) -> dict[str, Any]:
    """The chat format of a message, without anything that JSON can't hold."""
    check(message.metadata, "metadata")
    check(message.extras, "extras")
    if isinstance(message, AssistantMessage):
        check(message.usage, "usage")
        check(message.error, "error")
    data = to_dict(message)
    check(data, "message")
    return data


def line_of_message(message: Message) -> bytes:
    """The line of a message that was stored before."""
    return line_of(to_dict(message))


def digest_of(kind: str, messages: Sequence[Message | bytes], *more: str) -> str:
    """A fingerprint of what an operation was asked to do, without the ids and times that are given on the way."""
    state = hashlib.blake2b(kind.encode(), digest_size=12)
    for item in messages:
        data = to_dict(lazy_message(item) if isinstance(item, bytes) else item)
        data.pop("id", None)
        data.pop("created_at", None)
        state.update(b"\0" + encode(data))
    for text in more:
        state.update(b"\1" + text.encode())
    return state.hexdigest()
