"""The log: entries in records, and a record's payload as bytes.

A payload is lines of JSON. The first is the header (numbers, operation ids, views; no text of any message), each
further line one message. A record that is erased keeps its header: the first line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from diarist.runtime.codec import WIDE, decode, encode
from diarist.runtime.errors import BackendError
from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from diarist.runtime.views import Range

EntryKind = Literal["add", "clear", "update", "rewind", "describe", "delete", "lease", "purge"]

_set = object.__setattr__
_new = object.__new__


@dataclass(slots=True)
class Entry:
    """One operation's effect: `count` messages of the record, and the view that results."""

    operation: str
    kind: EntryKind
    count: int
    view: Sequence[Range]
    digest: str | None = None


@dataclass(slots=True)
class Record:
    """What one commit wrote: entries with consecutive versions from `first`, messages from `position` on.

    `erased`: the messages are gone, the numbers are kept.
    """

    first: int
    position: int
    entries: list[Entry]
    messages: list[Message]
    at: float
    erased: bool = False

    @property
    def last(self) -> int:
        """The version of the last entry."""
        return self.first + len(self.entries) - 1

    @property
    def count(self) -> int:
        """How many messages the record has, erased or not."""
        return sum(entry.count for entry in self.entries)


def flat(ranges: Iterable[Range]) -> list[int]:
    """Ranges as one list of numbers, four each."""
    return list(chain.from_iterable(ranges))


def unflat(numbers: Sequence[int]) -> list[Range]:
    """The inverse of `flat`."""
    return [Range(*numbers[place : place + 4]) for place in range(0, len(numbers), 4)]


def encode_record(position: int, entries: Sequence[Entry], lines: Sequence[bytes]) -> bytes:
    """The payload of a record. `lines` are the messages, each as `line_of` gave it."""
    header: dict[str, Any] = {
        "p": position,
        "e": [_entry_to(entry) for entry in entries],
    }
    return b"\n".join((encode(header), *lines))


def _entry_to(entry: Entry) -> dict[str, Any]:
    out: dict[str, Any] = {"o": entry.operation, "k": entry.kind, "n": entry.count, "v": flat(entry.view)}
    if entry.digest is not None:
        out["d"] = entry.digest
    return out


def decode_record(first: int, payload: bytes, at: float) -> Record:
    """A record out of its payload. A damaged one is a `BackendError`."""
    head, *lines = payload.split(b"\n")
    try:
        header = decode(head)
        entries = [Entry(item["o"], item["k"], item["n"], unflat(item["v"]), item.get("d")) for item in header["e"]]
        record = Record(first, header["p"], entries, [lazy_message(line) for line in lines], at)
        count = record.count
    except (LookupError, TypeError, AttributeError) as error:
        raise BackendError(f"the record at version {first} is damaged", outcome="not_executed") from error
    if count and not lines:
        record.erased = True
    elif count != len(lines):
        text = f"the record at version {first} has {len(lines)} messages instead of {count}"
        raise BackendError(text, outcome="not_executed")
    return record


def erased_payload(payload: bytes) -> bytes:
    """What is left of a payload when its text is erased: the header line."""
    return payload.partition(b"\n")[0]


# The role stands first in each line, so that the class is known without decoding.
_CLASSES: dict[int, type[Message]] = {
    ord("s"): SystemMessage,
    ord("d"): SystemMessage,
    ord("u"): UserMessage,
    ord("a"): AssistantMessage,
    ord("t"): ToolMessage,
    ord("f"): ToolMessage,
}
_ROLE_AT = len(b'{"role":"')
_WIDE = WIDE[0]


def line_of(data: dict[str, Any]) -> bytes:
    """A message's line: the chat format as JSON, `role` first."""
    return encode(data)


def lazy_message(line: bytes) -> Message:
    """A message that decodes its line when it is first looked into."""
    kind = _CLASSES[line[_ROLE_AT + (line[0] == _WIDE)]]
    message = _new(kind)
    _set(message, "_raw", line)
    return message
