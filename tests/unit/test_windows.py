"""The laws of the default window, corner by corner and as properties."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, UserMessage
from diarist.runtime.windows import MessageWindow, Window

from .strategies import bodies, chats, small_messages
from .test_window_vectors import message

LIMITS = st.integers(1, 8)


def of(*labels: str) -> list[Message]:
    return [message(label) for label in labels]


def after(window: Window, *adds: Sequence[str]) -> list[str]:
    view: Sequence[Message] = ()
    for labels in adds:
        view = window(view, of(*labels))
    return [item.text for item in view]


def systems_in(messages: Sequence[Message]) -> list[Message]:
    return [item for item in messages if isinstance(item, SystemMessage)]


def others_in(messages: Sequence[Message]) -> list[Message]:
    return [item for item in messages if not isinstance(item, SystemMessage)]


def ids(messages: Sequence[Message]) -> list[int]:
    return [id(item) for item in messages]


@pytest.mark.parametrize(
    ("limit", "adds", "expected"),
    [
        (3, [["U1", "A1t"], ["T1"], ["A2"]], ["U1", "A1t", "T1", "A2"]),
        (3, [["U1", "A1t"], ["T1"], ["A2"], ["U2"]], ["U2"]),
        (1, [["U1"], ["A1"], ["U2"]], ["U2"]),
        (1, [["S1"], ["U1"], ["A1"]], ["S1", "U1", "A1"]),
        (1, [["S1", "U1", "A1"], ["S2"]], ["U1", "A1", "S2"]),
        (2, [["S1", "S2"], ["U1", "A1", "U2"]], ["S1", "S2", "U2"]),
        (2, [["U1", "A1"], ["U2", "A2", "U3", "A3", "A3b"]], ["U3", "A3", "A3b"]),
        (2, [["U1", "U2", "U3"]], ["U2", "U3"]),
        (2, [["A1", "A2", "A3"]], ["A1", "A2", "A3"]),
        (2, [["A1", "A2", "A3"], ["U1"]], ["U1"]),
        (3, [["A0", "U1", "A1"], ["U2"]], ["U1", "A1", "U2"]),
        (3, [["U1", "S1", "A1", "U2", "A2"]], ["S1", "U2", "A2"]),
        (3, [["U1", "A1", "U2", "S1", "A2"]], ["U2", "S1", "A2"]),
    ],
    ids=lambda value: str(value).replace("'", ""),
)
def test_the_latest_turn_stays_whole_and_the_window_starts_on_a_turn(
    limit: int, adds: list[list[str]], expected: list[str]
) -> None:
    assert after(MessageWindow(limit), *adds) == expected


@pytest.mark.parametrize(
    ("adds", "expected"),
    [
        ([["S1", "U1"], ["S1", "U2"]], ["S1", "U1", "U2"]),
        ([["S1", "U1"], ["S2", "U2"]], ["U1", "S2", "U2"]),
        ([["S1", "U1"], ["S2"], ["S1"]], ["U1", "S1"]),
        ([["S1", "S1", "U1", "S1"]], ["S1", "U1"]),
        ([["S1", "U1"], ["S1", "S2"]], ["U1", "S1", "S2"]),
        ([["S1", "S2"], ["S2", "U1"]], ["S1", "S2", "U1"]),
        ([["S1", "S2", "U1"], ["S3", "S3", "S1"]], ["U1", "S3", "S1"]),
        ([["U1"], ["S1"]], ["U1", "S1"]),
    ],
    ids=lambda value: str(value).replace("'", ""),
)
def test_system_messages_are_replaced_and_never_stored_twice(adds: list[list[str]], expected: list[str]) -> None:
    assert after(MessageWindow(10), *adds) == expected


def test_without_dedupe_equal_system_messages_pile_up() -> None:
    assert after(MessageWindow(10, dedupe_system=False), ["S1", "U1"], ["S1"]) == ["S1", "U1", "S1"]


def test_without_snapping_the_cut_is_by_count_but_not_into_the_latest_turn() -> None:
    plain = MessageWindow(3, snap_to_turn=False)
    assert after(plain, ["U1", "A1", "U2", "A2"]) == ["A1", "U2", "A2"]
    assert after(plain, ["U1", "A1", "A2", "A3", "A4"]) == ["U1", "A1", "A2", "A3", "A4"]
    assert after(plain, ["A1", "A2", "A3", "A4"]) == ["A2", "A3", "A4"]


def test_without_the_latest_turn_a_long_turn_is_evicted() -> None:
    assert after(MessageWindow(2, keep_last_turn=False), ["S1", "U1", "A1", "A2"]) == ["S1"]


def test_metadata_makes_no_difference_by_default_but_does_in_the_preset() -> None:
    plain, tagged = SystemMessage("S"), SystemMessage("S", metadata={"at": 1}, id="x")
    assert MessageWindow()([plain], [tagged]) == (plain,)
    assert MessageWindow.spring_ai()([plain], [tagged]) == (tagged,)
    assert MessageWindow.spring_ai()([tagged], [SystemMessage("S", metadata={"at": 1})])[0] is tagged


def test_a_limit_must_be_a_positive_integer() -> None:
    for wrong in (0, -1, True, 2.0, "3", None):
        with pytest.raises(ValueError, match="max_messages must be greater than 0"):
            MessageWindow(wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_windows_are_values() -> None:
    window, preset = MessageWindow(3), MessageWindow.spring_ai(3)
    assert window == MessageWindow(3) != MessageWindow(3, dedupe_system=False)
    assert preset == MessageWindow.spring_ai(3)
    assert preset != MessageWindow(3, keep_last_turn=False, dedupe_system=False)
    assert (window.show_unmatched, preset.show_unmatched) == (False, True)
    assert repr(preset) == "MessageWindow.spring_ai(3, snap_to_turn=True)"
    assert eval(repr(window)) == window
    for item in (window, preset):
        assert pickle.loads(pickle.dumps(item)) == copy.copy(item) == item
        assert len({item, copy.deepcopy(item)}) == 1
    with pytest.raises(AttributeError):
        window.max_messages = 4  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


@given(LIMITS, chats, chats, st.booleans(), st.booleans(), st.booleans())
def test_only_given_objects_come_back_in_their_order(
    limit: int, view: list[Message], new: list[Message], keep: bool, dedupe: bool, snap: bool
) -> None:
    before = (list(view), list(new))
    window = MessageWindow(limit, keep_last_turn=keep, dedupe_system=dedupe, snap_to_turn=snap)
    result = ids(window(view, new))
    rest = iter(ids([*view, *new]))
    assert all(item in rest for item in result)
    assert ids(before[0]) == ids(view)
    assert ids(before[1]) == ids(new)


@given(LIMITS, chats, chats)
def test_a_system_message_goes_only_when_another_replaces_it(
    limit: int, view: list[Message], new: list[Message]
) -> None:
    old, added = systems_in(view), systems_in(new)
    kept = systems_in(MessageWindow(limit)(view, new))
    if all(any(item.same_content(other) for other in old) for item in added):
        assert ids(kept) == ids(old)
    else:
        assert all(any(item is other for other in added) for item in kept)
        assert {item.text for item in kept} == {item.text for item in added}
        assert len({item.text for item in kept}) == len(kept)


@given(LIMITS, chats, chats)
def test_the_limit_holds_but_for_system_messages_and_the_latest_turn(
    limit: int, view: list[Message], new: list[Message]
) -> None:
    whole = others_in([*view, *new])
    result = MessageWindow(limit)(view, new)
    shown = others_in(result)
    turns = [place for place, item in enumerate(whole) if isinstance(item, UserMessage)]
    latest = whole[turns[-1] :] if turns else whole
    assert ids(whole[len(whole) - len(shown) :]) == ids(shown)
    assert ids(shown[len(shown) - len(latest) :]) == ids(latest)
    assert len(result) <= limit or ids(shown) == ids(latest)
    assert len(shown) == len(whole) or isinstance(shown[0], UserMessage)


@given(LIMITS, chats, chats)
def test_no_turn_is_evicted_that_would_have_fitted(limit: int, view: list[Message], new: list[Message]) -> None:
    result = MessageWindow(limit)(view, new)
    whole, shown = others_in([*view, *new]), others_in(result)
    cut = whole[: len(whole) - len(shown)]
    turns = [place for place, item in enumerate(cut) if isinstance(item, UserMessage)]
    if turns:
        assert len(result) + len(cut) - turns[-1] > limit


@given(LIMITS, st.lists(small_messages, max_size=3), st.lists(bodies, max_size=20), st.booleans())
def test_one_by_one_is_the_same_as_all_at_once(
    limit: int, first: list[Message], rest: list[Message], snap: bool
) -> None:
    """Where no system message comes later: how a conversation was cut into adds doesn't show in its view."""
    window = MessageWindow(limit, snap_to_turn=snap)
    at_once = window((), [*first, *rest])
    view = window((), first)
    for item in rest:
        view = window(view, [item])
    assert ids(view) == ids(at_once)


@given(LIMITS, chats, st.booleans(), st.booleans())
def test_an_empty_add_after_an_add_changes_nothing(limit: int, new: list[Message], keep: bool, snap: bool) -> None:
    window = MessageWindow(limit, keep_last_turn=keep, snap_to_turn=snap)
    view = window((), new)
    assert ids(window(view, [])) == ids(view)


def test_messages_that_were_only_read_are_not_decoded() -> None:
    from diarist.runtime.log import lazy_message, line_of

    view = [lazy_message(line_of(item.to_dict())) for item in of("S1", "U1", "A1", "U2", "A2")]
    result = MessageWindow(4)(view, [UserMessage("U3"), AssistantMessage("A3")])
    assert [isinstance(item, SystemMessage) for item in result] == [True, False, False]
    assert not any(is_decoded(item) for item in view)


def is_decoded(item: Message) -> bool:
    try:
        object.__getattribute__(item, "content")
    except AttributeError:
        return False
    return True
