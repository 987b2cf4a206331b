"""Records as documents, and the `_id` that is the compare-and-set.

`_id` is the conversation's scope and the record's first version as 16 hexadecimal digits, so that it is unique by
nature, sorts a conversation's records in their order, and needs no second index. Fields of a document:

    _id                        "namespace \\0 conversation \\0 first"
    life, first, last, at      of the record; (life, last) is where the conversation stands after it
    header, text               the payload's first line, and the lines behind it if there are any
    created, updated, state    the head's columns after this record; owner, expires, deleted where they are set
    keys                       callers' keys that it made done: [{id, version, first, count, digest}]
    begins                     the scope; only in the record that begins a conversation: what is listed
    over                       only in a record that begins a new life over a tombstone: the tombstone's life
    due                        only in tombstones: when the sweeper has to see to it (0: text is left to erase)
    erased                     the text was taken out
    grave                      no record: it ends a conversation that is being removed (see `burying`); a random text
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import bson
from bson.errors import InvalidDocument

from diarist.runtime.errors import InvalidMessageError
from diarist.runtime.ids import Key
from diarist.runtime.repository import Commit, Done, Head, StoredRecord

Document = dict[str, Any]

MAX_DOCUMENT_BYTES: Final = (16 << 20) - (16 << 10)
"""Below the server's 16 MiB, with room for what an update may add."""

HEAD: Final = {"header": False, "text": False, "keys": False}
"""Projection: all that a head needs."""

POINT: Final = {"life": True, "first": True, "last": True, "grave": True, "over": True}
"""Projection: where a conversation stands."""

RECORD: Final = {"life": True, "first": True, "last": True, "at": True, "header": True, "text": True, "erased": True}
"""Projection: a record of the log."""

KEYED: Final = {"last": True, "keys": True}
"""Projection: callers' keys."""

_LAST_DIGITS: Final = "g"
"""Sorts behind every hexadecimal number."""


def scope(key: Key) -> str:
    """What all ids of a conversation begin with. Scopes sort as keys do, by code points."""
    return f"{_escaped(key.namespace)}\0{_escaped(key.id)}\0"


def record_id(key: Key, first: int) -> str:
    """The `_id` of the record whose first version that is."""
    return f"{scope(key)}{first:016x}"


def key_of(text: str) -> Key:
    """The conversation that a scope, or an `_id`, belongs to."""
    namespace, name, _ = text.split("\0")
    return Key(_plain(namespace), _plain(name))


def whole(key: Key) -> Mapping[str, str]:
    """The range of all ids of a conversation."""
    start = scope(key)
    return {"$gte": start, "$lt": f"{start}{_LAST_DIGITS}"}


def between(key: Key, low: int, high: int) -> Mapping[str, str]:
    """The range of ids with `low` <= first version <= `high`."""
    return {"$gte": record_id(key, max(low, 0)), "$lte": record_id(key, max(high, 0))}


def namespace_range(namespace: str) -> tuple[str, str]:
    """Between these two (both exclusive) are the scopes of a namespace."""
    return f"{_escaped(namespace)}\0", f"{_escaped(namespace)}\1"


def _escaped(text: str) -> str:
    """Without NUL, which separates; the order of texts is kept."""
    return text.replace("\1", "\1\2").replace("\0", "\1\1") if "\0" in text or "\1" in text else text


def _plain(text: str) -> str:
    return text.replace("\1\1", "\0").replace("\1\2", "\1") if "\1" in text else text


def encode(commit: Commit) -> bytes:
    """The record of a commit as BSON. What no document can hold is an `InvalidMessageError`."""
    try:
        raw = bson.encode(_document(commit))
    except (InvalidDocument, OverflowError, UnicodeEncodeError) as error:
        raise InvalidMessageError(f"MongoDB can't hold this value: {error}") from error
    if len(raw) > MAX_DOCUMENT_BYTES:
        text = f"the document has {len(raw)} bytes; MongoDB takes {MAX_DOCUMENT_BYTES} in one document"
        raise InvalidMessageError(text)
    return raw


def _document(commit: Commit) -> Document:
    head, record = commit.head, commit.record
    header, separator, text = record.payload.partition(b"\n")
    document: Document = {
        "_id": record_id(commit.key, record.first),
        "life": head.life,
        "first": record.first,
        "last": record.last,
        "at": record.at,
        "created": head.created,
        "updated": head.updated,
        "state": head.state,
        "header": header,
    }
    if separator:
        document["text"] = text
    if head.owner is not None:
        document["owner"] = head.owner
    if head.expires is not None:
        document["expires"] = head.expires
    if head.deleted:
        document["deleted"], document["due"] = True, 0.0
    if commit.keys:
        document["keys"] = [_key(commit.key, name, done) for name, done in commit.keys.items()]
    if commit.expected is None:
        document["begins"] = scope(commit.key)
    elif commit.expected[0] != head.life:
        document["over"] = commit.expected[0]
    return document


def _key(key: Key, name: str, done: Done) -> Document:
    return {
        "id": scope(key) + name,
        "version": done.version,
        "first": done.first,
        "count": done.count,
        "digest": done.digest,
    }


def done_of(key: Key, found: Document) -> tuple[str, Done]:
    """The inverse: a caller's key, and what it stands for."""
    name = found["id"][len(scope(key)) :]
    return name, Done(found["version"], found["first"], found["count"], found["digest"])


def key_ids(key: Key, names: list[str]) -> list[str]:
    """Callers' keys as they stand in `keys.id`: scoped, so that one index entry belongs to one conversation."""
    start = scope(key)
    return [start + name for name in names]


def head_of(document: Document) -> Head:
    """The head after this record."""
    return Head(
        life=document["life"],
        version=document["last"],
        owner=document.get("owner"),
        created=document["created"],
        updated=document["updated"],
        expires=document.get("expires"),
        deleted=document.get("deleted", False),
        state=document.get("state", b""),
    )


def record_of(document: Document) -> StoredRecord:
    """The record as it was committed, or what erasing left of it."""
    payload: bytes = document["header"]
    if "text" in document:
        payload += b"\n" + document["text"]
    return StoredRecord(document["first"], document["last"], payload, document["at"])
