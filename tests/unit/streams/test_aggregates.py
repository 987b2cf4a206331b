"""What all formats share: names, recognition, ends, errors; and the format `text`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, get_args

import pytest

from diarist.adapters.streaming import AutoAggregate, Format, TextAggregate, aggregator, auto
from tests.unit.streams.cases import ALL, FORMATS, aggregated, assert_reads_back, load, message_of


def test_every_format_has_an_entry_point() -> None:
    """The runtime finds them by name, as classes without constructor arguments."""
    found = {point.name: point.value for point in entry_points(group="diarist.aggregates")}
    for name in get_args(Format):
        assert found[name].startswith("diarist.adapters.streaming:")
        assert type(aggregator(name)).__name__ == found[name].rpartition(":")[2]


def test_an_unknown_format() -> None:
    with pytest.raises(ValueError, match="smoke"):
        aggregator("smoke")


@pytest.mark.parametrize("format", FORMATS)
def test_recognition_waits_for_a_telling_chunk(format: str) -> None:
    """Pings, heartbeats and nonsense tell nothing; what they are is counted once the format is known."""
    case = load(format)[0]
    aggregate = AutoAggregate()
    for chunk in [{"type": "ping"}, {"object": "gateway.heartbeat"}, None, "", "[DONE]", {}]:
        aggregate.add(chunk)
    assert aggregate.format is None
    for chunk in case["chunks"]:
        aggregate.add(chunk)
    assert aggregate.format == format
    assert aggregate.seen == len(case["chunks"]) + 6
    assert aggregate.message().text == case["expect"]["text"]


def test_a_stream_of_errors_alone() -> None:
    """The error is told though the format is not."""
    message = message_of("auto", {"error": {"code": 500}})
    assert (message.status, message.error) == ("error", {"code": 500})


def test_what_never_tells_is_held_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "MAX_HELD", 5)
    aggregate = aggregated("auto", [None] * 20)
    assert (aggregate.seen, aggregate.skipped) == (20, 20)


@pytest.mark.parametrize("format", [*FORMATS, "auto"])
def test_nothing_came(format: str) -> None:
    """An empty message that was cut off; one choice."""
    aggregate = aggregator(format)
    assert (aggregate.message().status, aggregate.message().text, len(aggregate.messages())) == ("truncated", "", 1)
    assert aggregate.message(cancelled=True).status == "cancelled"
    assert_reads_back(aggregate.message())


@pytest.mark.parametrize("case", [case for case in ALL if case["ends"] == "complete"], ids=lambda case: case["name"])
def test_closed_after_the_end_is_complete(case: Any) -> None:
    """A consumer that leaves when all has come has cancelled nothing (DESIGN part 6)."""
    if "sse_done" not in case["rules"]:
        assert aggregated(case["format"], case["chunks"]).message(cancelled=True).status == "complete"


class SdkError(Exception):
    """Exceptions as SDKs raise them carry the vendor's object."""

    def __init__(self, **places: Any) -> None:
        super().__init__("told")
        self.__dict__.update(places)

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (ConnectionResetError("gone"), {"type": "ConnectionResetError", "message": "gone"}),
        (SdkError(body={"code": 1}), {"code": 1}),
        (SdkError(body={"type": "error", "error": {"type": "overloaded_error"}}), {"type": "overloaded_error"}),
        (SdkError(body=None, details={"error": {"status": "UNAVAILABLE"}}), {"status": "UNAVAILABLE"}),
        (SdkError(response={"Error": {"Code": "throttlingException"}}), {"Code": "throttlingException"}),
        (SdkError(response=object()), {"type": "SdkError", "message": ""}),
        ({"code": 7}, {"code": 7}),
    ],
)
def test_an_error_of_the_stream(error: Any, wanted: Any) -> None:
    """The exception that was raised, or the vendor's object that the SDK put on it."""
    message = aggregated("openai_chat", load("openai_chat")[0]["chunks"]).message(error=error)
    assert (message.status, message.error) == ("error", wanted)
    assert_reads_back(message)


@pytest.mark.parametrize("leaving", [asyncio.CancelledError(), GeneratorExit()])
def test_leaving_is_no_error(leaving: BaseException) -> None:
    """Cancellation and closing are told as exceptions too; they are the consumer's."""
    message = aggregated("text", ["A"]).message(error=leaving)
    assert (message.status, message.error) == ("cancelled", None)


@pytest.mark.parametrize(
    "chunks",
    [
        ["Gr", "ün"],
        ["Grün".encode()[:3], "Grün".encode()[3:]],
        [{"text": "Gr"}, {"content": "ün"}],
        [{"delta": "Grün"}, 5, None, {"x": 1}],
        ["Grün", ""],
    ],
)
def test_text(chunks: list[Any]) -> None:
    """Strings, bytes split inside a character, objects with text; the end of the stream is the end."""
    message = message_of("text", *chunks)
    assert (message.text, message.status, message.parts[0].to_dict()["text"]) == ("Grün", "complete", "Grün")
    assert aggregated("text", chunks).message(cancelled=True).status == "cancelled"


def test_text_joins_surrogates_and_keeps_lone_ones() -> None:
    message = message_of("text", "a\ud83d", "\ude00b\ude00", "\ud83d")
    assert message.text == "a\U0001f600b\ude00\ud83d"
    assert_reads_back(message)


def test_text_with_an_error() -> None:
    message = message_of("text", "A", {"error": "down"})
    assert (message.text, message.status, message.error) == ("A", "error", {"message": "down"})


@pytest.mark.parametrize("make", [TextAggregate, AutoAggregate])
def test_counts(make: Callable[[], Any]) -> None:
    aggregate = make()
    for chunk in ("a", None, "b", object()):
        aggregate.add(chunk)
    assert (aggregate.seen, aggregate.skipped) == (4, 2)
