"""The preset reproduces the original on every recorded case, with and without turn snapping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from diarist.runtime.parts import ToolCall
from diarist.runtime.windows import MessageWindow

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / "window.json").read_text())["cases"]


def message(label: str) -> Message:
    if label.startswith("S"):
        return SystemMessage(label)
    if label.startswith("U"):
        return UserMessage(label)
    if label.startswith("T"):
        return ToolMessage(label, label.replace("T", "c"))
    calls = [ToolCall(f"c{label[1:-1]}", "look")] if label.endswith("t") else []
    return AssistantMessage(label, calls)


@pytest.mark.parametrize("snap_to_turn", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_preset_gives_what_the_original_gave(case: dict[str, Any], snap_to_turn: bool) -> None:
    window = MessageWindow.spring_ai(case["max_messages"], snap_to_turn=snap_to_turn)
    expected = case["after_each_add" if snap_to_turn else "after_each_add_no_snap"]
    view: tuple[Message, ...] = ()
    for labels, after in zip(case["adds"], expected, strict=True):
        view = window(view, [message(label) for label in labels])
        assert [item.text for item in view] == after
