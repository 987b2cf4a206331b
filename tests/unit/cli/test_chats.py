"""What is said in the demo."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from diarist import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from diarist.adapters.cli.demo.chats import exchanges, from_file, invented, is_streamed
from diarist.adapters.cli.jsonl import BadLine
from tests.support.cli import SAMPLE


def test_a_chat_is_divided_at_its_user_messages() -> None:
    system, first, second = SystemMessage("s"), UserMessage("q1"), UserMessage("q2")
    call, result, answer = AssistantMessage("", [ToolCall("c", "f")]), ToolMessage("r", "c"), AssistantMessage("a")
    found = list(exchanges([system, first, call, result, answer, second]))
    assert [(list(item.asked), list(item.said)) for item in found] == [
        ([system, first], [call, result, answer]),
        ([second], []),
    ]


def test_a_file_keeps_all_its_messages() -> None:
    chats = from_file(SAMPLE)
    sizes = [sum(len(item.asked) + len(item.said) for item in chats(number)) for number in range(5)]
    assert sizes == [7, 3, 2, 4, 7]


def test_a_file_without_chats_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "bad.jsonl").write_text("x\n")
    with pytest.raises(ValueError, match="has no chats"):
        from_file(tmp_path / "empty.jsonl")
    with pytest.raises(BadLine):
        from_file(tmp_path / "bad.jsonl")


def test_invented_chats_repeat_for_a_seed_and_their_messages_do_not() -> None:
    def said(seed: int, number: int) -> list[str]:
        found = islice(invented(seed)(number), 50)
        return [message.text for item in found for message in (*item.asked, *item.said)]

    assert said(1, 2) == said(1, 2)
    assert said(1, 2) != said(2, 2)
    assert len(set(said(1, 2))) == 100


def test_only_plain_answers_are_streamed() -> None:
    assert is_streamed(AssistantMessage("x", id="given"))
    for other in (
        UserMessage("x"),
        AssistantMessage(""),
        AssistantMessage(["x"]),
        AssistantMessage("x", refusal="no"),
        AssistantMessage("x", metadata={"a": 1}),
        AssistantMessage("x", [ToolCall("c", "f")]),
    ):
        assert not is_streamed(other)
