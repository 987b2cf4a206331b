"""Messages are values: frozen, comparable, copied for free, pickled whole."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given

from diarist.runtime.errors import InvalidMessageError
from diarist.runtime.log import lazy_message, line_of
from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from diarist.runtime.parts import ImagePart, ReasoningPart, TextPart, ToolCall, ToolCallPart

from .strategies import messages

ALL: list[Message] = [SystemMessage("a"), UserMessage("a"), AssistantMessage("a"), ToolMessage("a", "c")]
NOW = datetime(2025, 1, 1, tzinfo=UTC)


def stored(message: Message) -> Message:
    return lazy_message(line_of(message.to_dict()))


@given(messages)
def test_copies_and_pickles_are_equal(message: Message) -> None:
    assert copy.copy(message) is copy.deepcopy(message) is message
    for item in (message, stored(message)):
        again = pickle.loads(pickle.dumps(item))
        assert type(again) is type(message)
        assert again == message
        assert again.to_dict() == message.to_dict()


@given(messages)
def test_replacing_nothing_changes_nothing(message: Message) -> None:
    assert message.replace() == message
    assert stored(message).replace() == message


@pytest.mark.parametrize("message", ALL, ids=lambda item: item.role)
def test_no_field_can_be_set(message: Message) -> None:
    for item in (message, stored(message)):
        for field in dataclasses.fields(item):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(item, field.name, None)
            with pytest.raises(dataclasses.FrozenInstanceError):
                delattr(item, field.name)
        with pytest.raises((AttributeError, TypeError)):
            setattr(item, "unknown", 1)  # noqa: B010 - a plain assignment would be a type error
        with pytest.raises(TypeError, match="frozen"):
            item.metadata["a"] = 1  # type: ignore[index]  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize("message", ALL, ids=lambda item: item.role)
def test_unknown_attributes_are_attribute_errors(message: Message) -> None:
    for item in (message, stored(message)):
        with pytest.raises(AttributeError, match="nothing"):
            _ = getattr(item, "nothing")  # noqa: B009 - a plain access would be a type error
        assert not hasattr(item, "__nothing__")


def test_equality_sees_everything_and_same_content_only_what_was_said() -> None:
    plain = UserMessage("a")
    for other in (
        UserMessage("a", id="x"),
        UserMessage("a", metadata={"k": 1}),
        UserMessage("a", created_at=NOW),
        UserMessage("a", extras={"k": 1}),
        UserMessage([TextPart("a")]),
    ):
        assert other != plain
        assert other.same_content(plain)
        assert stored(other).same_content(plain)
    others: list[Message] = [UserMessage("b"), UserMessage("a", name="n"), UserMessage(["a", ImagePart("u")])]
    for item in [*others, SystemMessage("a")]:
        assert not item.same_content(plain)
    asked = AssistantMessage("", [ToolCall("1", "look")])
    assert not asked.same_content(AssistantMessage("", [ToolCall("2", "look")]))
    assert asked.same_content(AssistantMessage("", [ToolCall("1", "look")], usage={"n": 1}, status="complete"))
    assert not ToolMessage("a", "1").same_content(ToolMessage("a", "2"))


def test_text_and_parts() -> None:
    message = UserMessage(["a", ImagePart("u"), {"type": "text", "text": "b"}])
    assert message.text == "ab"
    assert message.parts == (TextPart("a"), ImagePart("u"), TextPart("b"))
    assert UserMessage("").parts == UserMessage(content=None).parts == ()
    answer = AssistantMessage("a", [ToolCall("1", "look")], "hm")
    assert answer.parts == (ReasoningPart("hm"), TextPart("a"), ToolCallPart(0))


def test_a_changed_text_is_not_hidden_by_the_old_layout() -> None:
    answer = AssistantMessage("a", layout=[ReasoningPart("hm"), TextPart("a")])
    assert answer.replace(id="x").layout == answer.layout
    assert answer.replace(text="b").parts == (TextPart("b"),)
    assert answer.replace(text="b", layout=[TextPart("b")]).layout == (TextPart("b"),)
    assert answer.replace(tool_calls=[ToolCall("1", "look")]).parts == (TextPart("a"), ToolCallPart(0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: UserMessage(b"a"),  # type: ignore[arg-type]
        lambda: UserMessage(5),  # type: ignore[arg-type]
        lambda: UserMessage([5]),  # type: ignore[list-item]
        lambda: UserMessage("a", metadata=["b"]),  # type: ignore[arg-type]
        lambda: UserMessage("a", created_at=datetime(2025, 1, 1)),
        lambda: UserMessage("a", created_at="2025"),  # type: ignore[arg-type]
        lambda: AssistantMessage("a", [{"id": "1"}]),
        lambda: ToolCall("1", "look", type="function_call"),
    ],
)
def test_a_wrong_shape_is_refused_at_once(make: Any) -> None:
    with pytest.raises(InvalidMessageError):
        make()
