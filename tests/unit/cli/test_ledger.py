"""The judge of the demo finds what it looks for."""

from __future__ import annotations

import pytest

from diarist import AssistantMessage, Message, ToolCall, UserMessage
from diarist.adapters.cli.demo.chats import Exchange
from diarist.adapters.cli.demo.ledger import Noted, Verdict
from diarist.adapters.cli.demo.meter import percentile


def noted(number: int, *, acknowledged: bool = True) -> Noted:
    return Noted(Exchange([UserMessage(f"q{number}")], [AssistantMessage(f"a{number}")]), acknowledged)


def verdict_on(notes: list[Noted], stored: list[Message]) -> Verdict:
    verdict = Verdict()
    verdict.judge(notes, stored)
    return verdict


def texts(*names: str) -> list[Message]:
    return [
        UserMessage(name) if name.startswith("q") else AssistantMessage(name, status="complete") for name in names
    ]


def test_all_there_in_order() -> None:
    verdict = verdict_on([noted(1), noted(2)], texts("q1", "a1", "q2", "a2"))
    assert verdict == Verdict(chats=1, acknowledged=4, found=4)
    assert verdict.clean


@pytest.mark.parametrize(
    ("stored", "lost", "doubled", "unordered"),
    [
        (["q1", "a1"], 2, 0, 0),
        ([], 4, 0, 0),
        (["q1", "a1", "a1", "q2", "a2"], 0, 1, 0),
        (["q2", "a2", "q1", "a1"], 0, 0, 1),
        (["q1", "q2", "a1", "a2"], 0, 0, 1),
        (["q1", "a1", "a2"], 1, 0, 0),
        (["q2", "a2", "a2"], 2, 1, 0),
    ],
)
def test_what_is_wrong_is_counted(stored: list[str], lost: int, doubled: int, unordered: int) -> None:
    verdict = verdict_on([noted(1), noted(2)], texts(*stored))
    assert (verdict.lost, verdict.doubled, verdict.unordered) == (lost, doubled, unordered)
    assert verdict.found == 4 - lost
    assert not verdict.clean


def test_what_nobody_was_told_of_may_be_there_or_not() -> None:
    notes = [noted(1), noted(2, acknowledged=False), noted(3)]
    there = verdict_on(notes, texts("q1", "a1", "q2", "a2", "q3", "a3"))
    gone = verdict_on(notes, texts("q1", "a1", "q3", "a3"))
    assert there.clean
    assert there.unpromised == 2
    assert gone.clean
    assert gone.unpromised == 0


def test_a_call_is_part_of_what_was_said() -> None:
    called = AssistantMessage("", [ToolCall("c1", "f", "{}")])
    notes = [Noted(Exchange([UserMessage("q")], [called]), True)]
    other = AssistantMessage("", [ToolCall("c1", "f", '{"x": 1}')])
    assert verdict_on(notes, [UserMessage("q"), called]).clean
    assert verdict_on(notes, [UserMessage("q"), other]).lost == 1


def test_percentiles() -> None:
    assert percentile([], 0.5) == 0
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile(range(100), 0.99) == 99
