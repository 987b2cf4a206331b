"""Only complete rounds of tool calls reach a model."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diarist.runtime.log import lazy_message, line_of
from diarist.runtime.matching import for_model, matched
from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from diarist.runtime.parts import OpaquePart, ReasoningPart, TextPart, ToolCall, ToolCallPart

from .provider_rules import faults
from .strategies import chats, results, small_calls
from .test_windows import ids, is_decoded

U, U2 = UserMessage("U"), UserMessage("U2")
A, S = AssistantMessage("A"), SystemMessage("S")


def calls(*call_ids: str | None, text: str = "", name: str = "look") -> AssistantMessage:
    return AssistantMessage(text, [ToolCall(call_id, name) for call_id in call_ids])


def result(call_id: str | None, text: str = "", name: str | None = None) -> ToolMessage:
    return ToolMessage(text, call_id, name)


R1, R2 = result("1"), result("2")
PAIR = calls("1", "2")


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [S, U, A],
        [A, U],
        [U, PAIR, R1, R2, A],
        [U, PAIR, R2, R1, A, U2],
        [U, calls("1"), R1, calls("1"), result("1"), A],
        [U, calls("1"), S, R1, A],
        [U, calls("1")],
        [U, PAIR, R2],
        [U, PAIR, R2, S],
        [U, calls("1"), R1, calls("2")],
        [U, calls(None, None), result(None), result(None), A],
        [U, calls("1", "1"), result("1"), result("1"), A],
    ],
)
def test_what_is_whole_or_still_running_is_shown_as_it_is(messages: list[Message]) -> None:
    given = tuple(messages)
    assert matched(given) is given


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([U, R1, A], [U, A]),
        ([R1, U], [U]),
        ([U, calls("1"), U2], [U, U2]),
        ([U, calls("1"), U2, R1, A], [U, U2, A]),
        ([U, calls("1"), calls("2"), R1, R2, A], [U, 2, R2, A]),
        ([U, calls("1"), result("9"), A], [U, A]),
        ([U, calls("1"), R1, result("1", "again"), A], [U, 1, R1, A]),
        ([U, calls("1"), R1, result("1", "again")], [U, 1, R1]),
        ([U, calls("1"), result(None), A], [U, A]),
        ([U, calls(None), result("1"), A], [U, A]),
        ([U, calls("1"), R1, A, result("1", "late")], [U, 1, R1, A]),
        ([U, calls("1"), R1, U2, calls("1"), A], [U, 1, R1, U2, A]),
    ],
)
def test_what_has_no_counterpart_is_left_out(messages: list[Message], expected: list[Message | int]) -> None:
    shown = [messages[item] if isinstance(item, int) else item for item in expected]
    assert ids(matched(messages)) == ids(shown)


def test_results_without_id_go_by_name_and_else_in_order() -> None:
    asked = AssistantMessage("", [ToolCall(None, "look"), ToolCall(None, "find"), ToolCall(None, "look")])
    found, seen, odd = result(None, "f", "find"), result(None, "l", "look"), result(None, "?", "other")
    more = result(None, "more", "look")
    assert ids(matched([U, asked, found, seen, odd, more, A])) == ids([U, asked, found, seen, odd, A])


def test_an_unanswered_call_in_the_past_goes_and_the_text_beside_it_stays() -> None:
    layout = [ReasoningPart("hm"), ToolCallPart(0), TextPart("Let me look."), ToolCallPart(1)]
    spoken = PAIR.replace(text="Let me look.", layout=layout, reasoning="hm", id="m", metadata={"k": 1})
    shown = matched([U, spoken, R2, U2])
    copy = shown[1]
    assert isinstance(copy, AssistantMessage)
    assert (copy.tool_calls, copy.text, copy.id, copy.metadata) == (
        (spoken.tool_calls[1],),
        spoken.text,
        "m",
        {"k": 1},
    )
    assert copy.layout == (ReasoningPart("hm"), TextPart("Let me look."), ToolCallPart(0))
    assert ids([shown[0], *shown[2:]]) == ids([U, R2, U2])
    bare = matched([U, spoken, U2])[1]
    assert isinstance(bare, AssistantMessage)
    assert (bare.tool_calls, bare.layout) == ((), (ReasoningPart("hm"), TextPart("Let me look.")))
    assert spoken.layout == tuple(layout)


@pytest.mark.parametrize(
    ("message", "stays"),
    [
        (calls("1", text=" \n"), False),
        (calls("1").replace(reasoning="thought"), False),
        (calls("1").replace(layout=[OpaquePart({"type": "redacted_thinking"}), ToolCallPart(0)]), False),
        (calls("1").replace(refusal="No."), True),
        (calls("1").replace(layout=[OpaquePart({"type": "web_search_tool_result"}), ToolCallPart(0)]), True),
    ],
)
def test_a_message_of_which_nothing_is_left_to_read_is_left_out(message: AssistantMessage, stays: bool) -> None:
    assert len(matched([U, message, U2])) == 2 + stays


def test_system_messages_come_first_and_keep_their_order() -> None:
    later = SystemMessage("later")
    assert ids(for_model([U, S, A, later, R1])) == ids([S, later, U, A])
    in_order = (S, later, U, A)
    assert for_model(in_order) is in_order


@given(chats)
def test_whatever_was_stored_a_provider_takes_what_is_shown(messages: list[Message]) -> None:
    assert faults(for_model(messages)) == []
    assert faults(matched(messages), systems_first=False) == []


@given(chats)
def test_nothing_is_left_out_that_a_provider_takes(messages: list[Message]) -> None:
    shown = matched(messages)
    assert ids(matched(shown)) == ids(shown)
    if not faults(messages, systems_first=False):
        assert ids(shown) == ids(messages)
    kept = [item for item in messages if isinstance(item, UserMessage | SystemMessage)]
    assert ids([item for item in shown if isinstance(item, UserMessage | SystemMessage)]) == ids(kept)
    assert [item.text for item in shown if isinstance(item, AssistantMessage) and item.text] == [
        item.text for item in messages if isinstance(item, AssistantMessage) and item.text
    ]


@given(st.lists(small_calls, max_size=4), st.lists(results, max_size=6))
def test_a_running_round_keeps_its_calls(asked: list[ToolCall], answers: list[Message]) -> None:
    running = AssistantMessage("", asked)
    shown = matched([U, running, *answers])
    assert shown[:2] == (U, running)
    assert shown[1] is running


def test_messages_are_looked_into_only_where_calls_may_be() -> None:
    def stored(messages: Sequence[Message]) -> list[Message]:
        return [lazy_message(line_of(item.to_dict())) for item in messages]

    view = stored([S, U, A, U2, AssistantMessage('Even \ud800 and "tool_calls".')])
    assert ids(matched(view)) == ids(view)
    assert not any(is_decoded(item) for item in view)
    view = stored([U, calls("\ud800"), result("\ud800"), A])
    assert ids(matched(view)) == ids(view)
    assert [is_decoded(item) for item in view] == [False, True, True, False]
