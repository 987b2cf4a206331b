"""What chunks add, told as they come: put together it is the message, for every format."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from diarist.adapters.streaming import aggregator
from diarist.adapters.streaming.live import SHORT, Delta, Live
from diarist.adapters.streaming.vercel_live import UIStream
from diarist.adapters.streaming.vercel_ui import DONE, UIPart, parts
from diarist.runtime.messages import AssistantMessage
from tests.unit.streams.cases import ALL, WITH_BYTES, Case, encoding_of, name_of, reads_of


def deltas_of(live: Live, chunks: Iterable[object]) -> list[Delta]:
    return [delta for chunk in chunks for delta in live.feed(chunk)] + list(live.finish())


def told(deltas: Iterable[Delta]) -> dict[str, Any]:
    texts = {
        kind: "".join(delta.text for delta in deltas if delta.kind == kind)
        for kind in ("text", "reasoning", "refusal")
    }
    calls: defaultdict[int, str] = defaultdict(str)
    for delta in deltas:
        if delta.call is not None:
            calls[delta.part] += delta.text
    return {**texts, "calls": [calls[part] for part in sorted(calls)]}


def meant(message: AssistantMessage) -> dict[str, Any]:
    return {
        "text": message.text,
        "reasoning": message.reasoning,
        "refusal": message.refusal or "",
        "calls": [call.arguments for call in message.tool_calls if call.name],
    }


WITH_CHUNKS = [case for case in ALL if "chunks" in case]


@pytest.mark.parametrize("case", WITH_CHUNKS, ids=name_of)
def test_the_deltas_are_the_message(case: Case) -> None:
    """Each once, in every format's vectors."""
    aggregate = aggregator(case["format"])
    for chunk in case["chunks"]:
        aggregate.add(chunk)
    assert told(deltas_of(Live(case["format"]), case["chunks"])) == meant(aggregate.message())


@pytest.mark.parametrize("case", WITH_BYTES, ids=name_of)
def test_also_of_raw_bytes(case: Case) -> None:
    """Cut anywhere: an event that is not whole is not told, and not lost."""
    whole = b"".join(reads_of(case))
    live = Live(case["format"], encoding_of(case))
    single = deltas_of(live, [whole[place : place + 1] for place in range(len(whole))])
    assert told(single) == meant(live.message())


def put_together(stream: Iterable[UIPart]) -> list[Any]:
    """As the browser does: the deltas of a part joined; the calls' inputs after all else."""
    listed: list[Any] = []
    texts: dict[str, str] = {}
    for part in stream:
        if isinstance(part, str):
            listed.append(part)
        elif part["type"].endswith("-delta"):
            key = part.get("id") or part["toolCallId"]
            texts[key] = texts.get(key, "") + (part.get("delta") or part.get("inputTextDelta") or "")
        elif not part["type"].startswith(("tool-input-available", "tool-input-error")):
            listed.append(part)
    inputs = [part for part in stream if isinstance(part, dict) and part["type"].startswith("tool-input-a")]
    return [listed, texts, inputs]


@pytest.mark.parametrize("case", WITH_CHUNKS, ids=name_of)
def test_the_parts_are_those_of_the_whole_message(case: Case) -> None:
    """Live or at once, the browser shows the same."""
    stream = UIStream(case["format"])
    aggregate = aggregator(case["format"])
    live: list[UIPart] = list(stream.start("m"))
    for chunk in case["chunks"]:
        aggregate.add(chunk)
        live += stream.feed(chunk)
    message = aggregate.message()
    live += stream.finish(message)
    assert live[-1] == DONE
    opened = [part for part in live if isinstance(part, dict) and part["type"].endswith("-start")]
    assert len({json.dumps(part) for part in opened}) == len(opened)
    if all(call.name for call in message.tool_calls):
        assert put_together(live) == put_together(list(parts(message, "m")))


def test_nothing_is_held_back_while_it_is_short() -> None:
    live = Live("text")
    for word in ("one ", "two ", "three"):
        assert [delta.text for delta in live.feed(word)] == [word]
    assert list(live.finish()) == []


def test_a_split_character_is_told_whole() -> None:
    live = Live("text")
    assert [delta.text for delta in live.feed("a\ud83c")] == ["a"]
    assert [delta.text for delta in live.feed("\udf5e!")] == ["🍞!"]
    assert list(live.feed("\ud83c")) == []
    assert [delta.text for delta in live.finish()] == ["\ud83c"]


def test_a_long_stream_is_looked_at_less_often_and_still_told_whole() -> None:
    """Linear: the number of looks grows with the logarithm of the length."""
    live, looks = Live("text"), 0
    text: list[str] = []
    for number in range(40_000):
        found = list(live.feed(f"{number} "))
        looks += bool(found)
        text += [delta.text for delta in found]
    text += [delta.text for delta in live.finish()]
    assert "".join(text) == "".join(f"{number} " for number in range(40_000))
    assert SHORT / 6 < looks < 8_000
