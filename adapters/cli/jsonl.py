"""Chats as JSON Lines: one object a line, `{"messages": […], "id": …}`, in the OpenAI chat format.

`namespace` is there too if it is not the default one. What else a line has is not stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, BinaryIO, Final, NoReturn

from diarist.runtime.clock import Environment
from diarist.runtime.codec import WIDE, encode
from diarist.runtime.errors import DiaristError, InvalidMessageError
from diarist.runtime.ids import check_id, check_namespace
from diarist.runtime.intake import Intake
from diarist.runtime.limits import Limits
from diarist.runtime.messages import Message
from diarist.runtime.results import ConversationInfo
from diarist.runtime.values import is_dict, is_list

KEYS: Final = frozenset({"id", "messages", "namespace"})

# What `diarist.runtime.ids.new_id` makes, and how long before its conversation a message may have been stamped.
_MADE: Final = re.compile(r"[0-9a-f]{24}\Z")
_LATENCY: Final = timedelta(seconds=60)

_intake = Intake(Environment(), Limits().message_bytes)


class BadLine(ValueError):
    """A line that is no chat; the text says why."""


@dataclass(frozen=True, slots=True)
class Chat:
    """One line. `keys`: an idempotency key per message. `named`: the line had an id. `derived`: the keys are made of
    the messages' places, because not all have an id of their own. `ignored`: other keys of the line."""

    number: int
    id: str
    namespace: str
    messages: Sequence[Message]
    keys: Sequence[str]
    named: bool
    derived: bool
    ignored: Sequence[str]


def numbered_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
    for number, line in enumerate(stream, 1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if text.strip():
            yield number, text


def read_chat(number: int, line: bytes) -> Chat:
    """The chat in a line, all of it checked; `BadLine` if any of it can't be stored."""
    data = _object_of(line)
    try:
        given = data.get("id")
        id = check_id(f"line-{number}" if given is None else given, "id")
        namespace = check_namespace(data.get("namespace") or "")
        messages = _messages_of(data.get("messages"))
    except DiaristError as error:
        raise BadLine(str(error)) from error
    own = [message.id for message in messages]
    derived = not _are_keys(own)
    keys = [f"load:{place}" if derived else f"{own[place]}" for place in range(len(messages))]
    return Chat(number, id, namespace, messages, keys, given is not None, derived, sorted(data.keys() - KEYS))


def _object_of(line: bytes) -> dict[str, Any]:
    try:
        data: object = json.loads(line.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise BadLine(f"byte {error.start + 1} is no UTF-8") from error
    except json.JSONDecodeError as error:
        raise BadLine(f"no JSON: {error.msg} (character {error.pos + 1})") from error
    except RecursionError as error:
        raise BadLine("nested too deeply") from error
    except ValueError as error:
        raise BadLine(f"no JSON: {error}") from error
    if not is_dict(data):
        raise BadLine('no JSON object: {"messages": […], "id": …} is wanted')
    found: dict[str, Any] = data
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _messages_of(listed: object) -> list[Message]:
    if not is_list(listed):
        raise BadLine("messages: missing" if listed is None else "messages: no list")
    return [_message_of(item, place) for place, item in enumerate(listed)]


def _message_of(item: Any, place: int) -> Message:
    try:
        message = Message.from_dict(item)
        _intake.lines([message])
    except InvalidMessageError as error:
        raise BadLine(f"messages[{place}]: {str(error).removeprefix('messages[0]: ')}") from error
    return message


def _are_keys(ids: Iterable[str | None]) -> bool:
    """Whether every message has an id that can be its idempotency key, and no two have the same."""
    seen: set[str] = set()
    for id in ids:
        try:
            key = check_id(id)
        except DiaristError:
            return False
        if key in seen:
            return False
        seen.add(key)
    return True


def write_chat(info: ConversationInfo, messages: Iterable[Message], *, full: bool) -> bytes:
    """A line. Unless `full`, ids and times that Diarist gave the messages are left out."""
    data: dict[str, Any] = {"id": info.id}
    if info.namespace:
        data["namespace"] = info.namespace
    data["messages"] = [(message if full else as_given(message, info)).to_dict() for message in messages]
    return encode(data).removeprefix(WIDE) + b"\n"


def as_given(message: Message, info: ConversationInfo) -> Message:
    """The message as it was handed in.

    An id that Diarist makes is known by its shape. A time that it gives lies in the conversation's own life; one that
    was handed in lies before the conversation came into this store, unless somebody stamps and loads within a minute.
    """
    changes: dict[str, None] = {}
    if message.id is not None and _MADE.match(message.id):
        changes["id"] = None
    at = message.created_at
    if at is not None and info.created_at - _LATENCY <= at <= info.updated_at:
        changes["created_at"] = None
    return message.replace(**changes) if changes else message
