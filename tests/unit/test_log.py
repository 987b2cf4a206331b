"""Records and heads come back from bytes as they went in, and damage is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diarist.runtime.errors import BackendError
from diarist.runtime.log import (
    Entry,
    Record,
    decode_record,
    encode_record,
    erased_payload,
    flat,
    lazy_message,
    line_of,
    unflat,
)
from diarist.runtime.messages import Message, UserMessage
from diarist.runtime.repository import Head, Snapshot, StoredRecord
from diarist.runtime.state import Facts, State, decode_head, restore, view_of, view_ranges
from diarist.runtime.views import Range, RecordIndex, ViewState, runs_of

from .strategies import messages, metadata, texts
from .test_windows import ids

numbers = st.integers(0, 2**53)
ranges = st.lists(st.builds(Range, numbers, numbers, numbers, numbers), max_size=4)
kinds = st.sampled_from(["add", "clear", "update", "rewind", "describe", "delete"])


@given(ranges)
def test_ranges_survive_being_flattened(given_ranges: list[Range]) -> None:
    assert unflat(flat(given_ranges)) == given_ranges


@given(
    numbers,
    st.lists(st.tuples(texts, kinds, ranges, st.none() | texts), min_size=1, max_size=3),
    st.lists(st.lists(messages, max_size=2), min_size=3, max_size=3),
)
def test_a_record_survives_its_payload(
    position: int, given_entries: list[tuple[str, str, list[Range], str | None]], shown: list[list[Message]]
) -> None:
    entries = [
        Entry(operation, kind, len(shown[place]), view, digest)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        for place, (operation, kind, view, digest) in enumerate(given_entries)
    ]
    inside = [item for place in range(len(entries)) for item in shown[place]]
    payload = encode_record(position, entries, [line_of(item.to_dict()) for item in inside])
    record = decode_record(7, payload, 1.5)
    assert record == Record(7, position, entries, inside, 1.5)
    assert (record.last, record.count) == (7 + len(entries) - 1, len(inside))
    emptied = decode_record(7, erased_payload(payload), 1.5)
    assert (emptied.entries, emptied.messages, emptied.erased) == (entries, [], bool(inside))
    assert erased_payload(erased_payload(payload)) == erased_payload(payload)


LINE = line_of(UserMessage("a").to_dict())
ENTRY = Entry("op", "add", 1, ())
GOOD = encode_record(0, [ENTRY], [LINE])


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        GOOD[5:],
        GOOD + b"\n" + LINE,
        GOOD + b"\n",
        encode_record(0, [ENTRY], [b'{"role":"zebra"}']),
        encode_record(0, [ENTRY], [b"x"]),
        b'{"p":0,"e":[{"o":"a","k":"add","n":"1","v":[]}]}\n' + LINE,
        b'{"p":0,"e":[{"o":"a","k":"add","n":1,"v":[1]}]}\n' + LINE,
        b'{"p":0,"e":5}',
    ],
)
def test_a_damaged_record_is_an_error_of_the_backend(payload: bytes) -> None:
    with pytest.raises(BackendError) as caught:
        decode_record(1, payload, 0.0)
    assert caught.value.outcome == "not_executed"


def test_a_damaged_line_is_an_error_when_it_is_looked_into() -> None:
    message = lazy_message(b'{"role":"user","content":')
    with pytest.raises(BackendError):
        _ = message.text


@given(numbers, ranges, st.none() | texts, metadata, numbers, numbers)
def test_a_state_survives_the_head(
    position: int, shown: list[Range], title: str | None, about: dict[str, object], rewound: int, cleared: int
) -> None:
    state = State(position=position, facts=Facts(None, title, about, rewound, cleared))
    head = Head("life", 9, "owner", 1.0, 2.0, None, False, state.encode(shown))
    assert view_ranges(head.state) == shown
    again = decode_head(head)
    assert again.encode(shown) == head.state
    assert (again.life, again.version, again.facts.owner, again.created, again.point) == (
        "life",
        9,
        "owner",
        1.0,
        ("life", 9),
    )
    assert (again.position, again.facts.title, again.facts.metadata) == (position, title, about)
    assert again.copy() == again
    assert again.copy() is not again


def test_a_tombstone_is_no_conversation_at_a_version() -> None:
    head = Head("life", 9, None, 1.0, 2.0, 3.0, True, b"")
    state, index = restore(Snapshot(head, []))
    assert (state.exists, state.version, state.point, index.positions) == (False, 9, ("life", 9), [])
    assert view_ranges(b"") == []


def test_nothing_stored_is_an_empty_state() -> None:
    state, index = restore(None)
    assert (state.exists, state.version, state.point, index.positions) == (False, 0, None, [])


@pytest.mark.parametrize("stored", [b"", b"{}", b"[]", b"5", b"\xff"])
def test_a_damaged_head_is_an_error_of_the_backend(stored: bytes) -> None:
    with pytest.raises(BackendError):
        decode_head(Head("life", 9, None, 1.0, 2.0, None, False, stored))


@pytest.mark.parametrize("stored", [b"[]", b"5", b'{"v":5}', b'{"v":[1]}'])
def test_damaged_ranges_are_an_error_of_the_backend(stored: bytes) -> None:
    with pytest.raises(BackendError):
        view_ranges(stored)


def stored_record(first: int, position: int, texts_inside: list[str]) -> StoredRecord:
    lines = [line_of(UserMessage(text).to_dict()) for text in texts_inside]
    payload = encode_record(position, [Entry(f"op{first}", "add", len(lines), ())], lines)
    return StoredRecord(first, first, payload, 0.0)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.data())
def test_what_was_in_view_is_in_view_after_loading(sizes: list[int], data: st.DataObject) -> None:
    index, records, position = RecordIndex(), list[StoredRecord](), 0
    for first, size in enumerate(sizes, start=1):
        records.append(stored_record(first, position, [str(position + offset) for offset in range(size)]))
        index.add(first, position, size)
        position += size
    chosen = data.draw(st.lists(st.integers(0, position - 1), unique=True))
    shown = index.ranges(runs_of(chosen))
    state = State(position=position)
    needed = [item for item in records if any(part.first <= item.first <= part.last for part in shown)]
    restored, again = restore(Snapshot(Head("l", 9, None, 0, 0, None, False, state.encode(shown)), needed))
    assert [item.text for item in restored.view.messages] == [str(place) for place in chosen]
    assert restored.view.runs == runs_of(chosen)
    assert again.ranges(restored.view.runs) == shown


def test_a_view_of_what_was_erased_is_an_error() -> None:
    record = decode_record(1, erased_payload(GOOD), 0.0)
    with pytest.raises(BackendError):
        view_of([Range(1, 1)], [record])
    with pytest.raises(BackendError):
        view_of([Range(1, 1)], [])
    assert view_of([], [record]) == ViewState((), ())


def test_records_without_messages_may_stand_inside_a_range() -> None:
    first, cleared, second = (
        GOOD,
        encode_record(1, [Entry("c", "clear", 0, ())], []),
        encode_record(1, [ENTRY], [LINE]),
    )
    records = [decode_record(place, payload, 0.0) for place, payload in enumerate((first, cleared, second), start=1)]
    view = view_of([Range(1, 3)], records)
    assert ids(view.messages) == ids([*records[0].messages, *records[2].messages])
    assert view.runs == ((0, 2),)
