"""Records as documents: ids that sort, payloads in two parts."""

from __future__ import annotations

from dataclasses import replace

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diarist.backends.conformance.harness import Chat
from diarist.backends.mongodb import documents
from diarist.backends.mongodb.documents import MAX_DOCUMENT_BYTES
from diarist.runtime.errors import InvalidMessageError
from diarist.runtime.ids import Key
from diarist.runtime.repository import Commit, Done

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.text("\0\1\2a", max_size=5)
KEYS = st.builds(Key, TEXTS, TEXTS)
VERSIONS = st.integers(1, 2**63 - 1)


@given(KEYS, VERSIONS)
def test_an_id_tells_its_conversation(key: Key, first: int) -> None:
    assert documents.key_of(documents.record_id(key, first)) == key
    assert documents.key_of(documents.scope(key)) == key


@given(KEYS, KEYS, VERSIONS, VERSIONS)
def test_ids_sort_by_conversation_and_version(one: Key, other: Key, first: int, second: int) -> None:
    ids = documents.record_id(one, first), documents.record_id(other, second)
    assert (ids[0] < ids[1]) == ((one, first) < (other, second))


@given(KEYS, KEYS, VERSIONS)
def test_a_range_holds_one_conversation(one: Key, other: Key, first: int) -> None:
    range_ = documents.whole(one)
    assert (range_["$gte"] <= documents.record_id(other, first) < range_["$lt"]) == (one == other)


@given(TEXTS, KEYS)
def test_a_namespace_is_a_range_of_scopes(namespace: str, key: Key) -> None:
    low, high = documents.namespace_range(namespace)
    assert (low < documents.scope(key) < high) == (key.namespace == namespace)


def decoded(commit: Commit) -> documents.Document:
    found: documents.Document = bson.BSON(documents.encode(commit)).decode()
    return found


@given(st.binary(max_size=20))
def test_a_payload_comes_back(payload: bytes) -> None:
    commit = Chat("a").next("x")
    record = replace(commit.record, payload=payload)
    document = decoded(replace(commit, record=record))
    assert documents.record_of(document) == record
    assert documents.head_of(document) == commit.head
    document.pop("text", None)  # what erasing does
    assert documents.record_of(document).payload == payload.partition(b"\n")[0]


@given(KEYS, TEXTS)
def test_callers_keys_come_back(key: Key, name: str) -> None:
    done = Done(1, 2, 3, "d")
    document = decoded(replace(Chat("a").next("x"), key=key, keys={name: done}))
    [item] = document["keys"]
    assert documents.key_ids(key, [name]) == [item["id"]]
    assert documents.done_of(key, item) == (name, done)


def test_only_the_beginning_and_new_lives_are_marked() -> None:
    chat = Chat("a")
    first, second, tombstone = chat.next("x"), chat.next("y"), chat.tombstone()
    reborn = Chat("a", life="life-2", point=chat.point).next("z")
    marks = [set(decoded(item)) & {"begins", "over", "due"} for item in (first, second, tombstone, reborn)]
    assert marks == [{"begins"}, set(), {"due"}, {"over"}]


@pytest.mark.parametrize("change", ["payload", "state"])
def test_what_is_too_large_is_refused_before_the_wire(change: str) -> None:
    """Also where it is the head that makes it so."""
    commit = Chat("a").next("x")
    large = bytes(MAX_DOCUMENT_BYTES)
    if change == "payload":
        commit = replace(commit, record=replace(commit.record, payload=large))
    else:
        commit = replace(commit, head=replace(commit.head, state=large))
    with pytest.raises(InvalidMessageError, match="MongoDB takes"):
        documents.encode(commit)


def test_what_bson_can_not_hold_is_refused() -> None:
    commit = Chat("a").next("x")
    for head in (replace(commit.head, owner="\ud800"), replace(commit.head, version=2**63)):
        broken = replace(commit, head=head, record=replace(commit.record, last=head.version))
        with pytest.raises(InvalidMessageError, match="can't hold"):
            documents.encode(broken)
