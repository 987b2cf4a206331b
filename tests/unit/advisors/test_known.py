"""Which messages of a request are new: a conversation's messages never become known twice, whatever is sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from diarist import AssistantMessage, Message, SystemMessage, UserMessage
from diarist.adapters.advisors.known import new_messages

turns = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy")), min_size=1, max_size=6)


def chat(pairs: list[tuple[str, str]]) -> list[Message]:
    return [message for asked, said in pairs for message in (UserMessage(asked), AssistantMessage(said))]


@given(turns, st.data())
def test_any_end_of_the_history_is_known(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    """A client sends the last few messages, from a user's on, and a question."""
    view = chat(pairs)
    start = 2 * data.draw(st.integers(0, len(pairs)))
    asked = UserMessage("new")
    assert new_messages(view, [*view[start:], asked]) == (asked,)


@given(turns, turns)
def test_what_is_in_front_of_the_view_is_known(older: list[tuple[str, str]], pairs: list[tuple[str, str]]) -> None:
    """The whole history is sent, and the window shows only its end."""
    asked = UserMessage("new")
    assert new_messages(chat(pairs), [*chat(older), *chat(pairs), asked]) == (asked,)


@given(turns, st.lists(st.sampled_from("ab"), max_size=3))
def test_a_question_alone_is_new(pairs: list[tuple[str, str]], texts: list[str]) -> None:
    """Also if it was asked before: it has its answer."""
    asked = [UserMessage(text) for text in texts]
    assert new_messages(chat(pairs), asked) == tuple(asked)


def test_system_messages_are_known_by_content() -> None:
    """One that equals one in view is known, wherever it stands; another is new, and keeps its place."""
    view = [SystemMessage("S"), UserMessage("U")]
    given = [SystemMessage("S", metadata={"a": 1}), UserMessage("U"), SystemMessage("T"), UserMessage("V")]
    assert new_messages(view, given) == (given[2], given[3])
