"""A turn closes every stream that it was given to record, whatever kind it is and however the body ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from diarist import UserMessage
from diarist.runtime import turn as turn_module
from tests.support.turns import Stream, forever, opened, settle, stored


class SDKStream:
    """As the OpenAI SDK's: `__aiter__` is a generator over an inner iterator, and `close` closes the response."""

    def __init__(self, *chunks: str) -> None:
        self._chunks = chunks
        self.closed = 0

    async def __aiter__(self) -> AsyncIterator[str]:
        for chunk in self._chunks:
            yield chunk

    async def close(self) -> None:
        self.closed += 1


class SyncClose:
    """A stream whose `close` is a plain method."""

    def __init__(self) -> None:
        self.closed = 0

    def __aiter__(self) -> SyncClose:
        return self

    async def __anext__(self) -> str:
        return "a"

    def close(self) -> None:
        self.closed += 1


class Bare:
    """A stream that can't be closed."""

    def __aiter__(self) -> Bare:
        return self

    async def __anext__(self) -> str:
        return "a"


@pytest.mark.parametrize("leave", ["exhaust", "break"])
async def test_a_stream_whose_iterator_is_a_generator_is_closed_itself(leave: str) -> None:
    async with opened() as memory:
        stream = SDKStream("a", "b")
        async with memory.conversation("c").turn(UserMessage("q")) as turn:
            async for _ in turn.record(stream, format="text"):
                if leave == "break":
                    break
        assert stream.closed == 1


async def test_a_stream_with_a_plain_close_is_closed() -> None:
    async with opened() as memory:
        stream = SyncClose()
        async with memory.conversation("c").turn(UserMessage("q")) as turn:
            async for _ in turn.record(stream, format="text"):
                break
        assert stream.closed == 1


async def test_a_stream_without_close_is_fine() -> None:
    async with opened() as memory:
        async with memory.conversation("c").turn(UserMessage("q")) as turn:
            async for _ in turn.record(Bare(), format="text"):
                break
        assert turn.answer.text == "a"


async def test_a_generator_runs_its_clean_up_before_the_turn_ends() -> None:
    left: list[str] = []

    async def model() -> AsyncGenerator[str, None]:
        try:
            yield "a"
            yield "b"
        finally:
            await asyncio.sleep(0)
            left.append("closed")

    async with opened() as memory:
        async with memory.conversation("c").turn(UserMessage("q")) as turn:
            async for _ in turn.record(model(), format="text"):
                break
        assert left == ["closed"]


async def test_every_stream_of_a_turn_is_closed() -> None:
    async with opened() as memory:
        streams = [Stream("a", "b") for _ in range(4)]
        async with memory.conversation("c").turn(UserMessage("q")) as turn:
            turn.record(streams[0], format="text")
            async for _ in turn.record(streams[1], format="text"):
                break
            await turn.add({"role": "assistant", "content": "between"})
            async for _ in turn.record(streams[2], format="text"):
                pass
            async for _ in turn.record(streams[3], format="text"):
                break
        assert [stream.closed for stream in streams] == [1, 1, 1, 1]


async def test_a_stream_of_a_turn_interrupted_at_a_yield_is_closed() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        stream = Stream("a", "b")

        async def handler() -> AsyncGenerator[str, None]:
            async with chat.turn(UserMessage("q")) as turn:
                async for chunk in turn.record(stream, format="text"):
                    yield chunk

        reply = handler()
        assert await anext(reply) == "a"
        assert await chat.interrupt() is True
        with pytest.raises(Exception, match="interrupted"):
            await anext(reply)
        assert stream.closed == 1
        assert await stored(chat) == ["u:q", "a:a (cancelled)"]


async def test_closing_the_recorder_closes_its_stream_once_and_ends_the_loop() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        stream = Stream("a", "b")
        async with chat.turn(UserMessage("q")) as turn:
            recorder = turn.record(stream, format="text")
            assert await anext(recorder) == "a"
            await recorder.aclose()
            await recorder.aclose()
            assert [chunk async for chunk in recorder] == []
        assert stream.closed == 1
        assert await stored(chat) == ["u:q", "a:a (cancelled)"]


class BadClose(Stream):
    """A stream that fails when it is closed."""

    def __init__(self, error: BaseException, *script: Any) -> None:
        super().__init__(*script)
        self.error = error

    async def aclose(self) -> None:
        await super().aclose()
        raise self.error


@pytest.mark.parametrize("error", [OSError("gone"), asyncio.CancelledError()], ids=["error", "cancelled"])
async def test_a_stream_that_fails_to_close_is_a_line_in_the_log_and_not_the_callers_problem(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        streams = [BadClose(error, "a", "b"), BadClose(error, "c", "d")]
        async with chat.turn(UserMessage("q")) as turn:
            for stream in streams:
                async for _ in turn.record(stream, format="text"):
                    break
        assert [stream.closed for stream in streams] == [1, 1]
        assert await stored(chat) == ["u:q", "a:a (cancelled)", "a:c (cancelled)"]
        assert memory.stats().failures == 2
    assert [record.message for record in caplog.records] == ["a model's stream could not be closed"] * 2


async def test_a_stream_that_never_closes_does_not_hold_the_turn_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_module, "CLOSE_SECONDS", 0.01)

    class Stuck(Stream):
        async def aclose(self) -> None:
            await forever()

    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q")) as turn:
            async for _ in turn.record(Stuck("a", "b"), format="text"):
                break
        assert await stored(chat) == ["u:q", "a:a (cancelled)"]


async def test_cancelled_while_its_stream_is_being_closed_a_turn_is_stored_all_the_same() -> None:
    class Slow(Stream):
        async def aclose(self) -> None:
            self.pending.set()
            self.closed += 1
            await forever()

    async with opened() as memory:
        chat = memory.conversation("c")
        slow: Stream = Slow("a", "b")
        other = Stream("c", "d")

        async def handler() -> None:
            async with chat.turn(UserMessage("q")) as turn:
                turn.record(other, format="text")
                async for _ in turn.record(slow, format="text"):
                    break

        task = asyncio.create_task(handler())
        await slow.pending.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (slow.closed, other.closed) == (1, 1)
        assert await stored(chat) == ["u:q", "a:a (cancelled)"]


async def test_what_is_not_a_stream_is_refused_and_leaves_the_turn_as_it_was() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        first = Stream("a")
        async with chat.turn(UserMessage("q")) as turn:
            recorder = turn.record(first, format="text")
            with pytest.raises(AttributeError):
                turn.record(42, format="text")  # type: ignore[arg-type]  # pyright: ignore
            assert [chunk async for chunk in recorder] == ["a"]
        assert await stored(chat) == ["u:q", "a:a"]


async def test_two_abandoned_generators_in_a_row_in_one_task() -> None:
    """`break` leaves a generator to the loop to close: the task's next turn must not take it for a nested one."""
    async with opened() as memory:
        chat = memory.conversation("c")

        async def inner(text: str) -> AsyncGenerator[str, None]:
            async with chat.turn(UserMessage(text)) as turn:
                async for chunk in turn.record(Stream("a", "b"), format="text"):
                    yield chunk

        async def outer(text: str) -> AsyncGenerator[str, None]:
            async for chunk in inner(text):
                yield chunk

        for handler in (inner, outer):
            for text in ("q", "r"):
                async for _ in handler(text):
                    break  # the generator is not closed here, but by the loop
        await settle()
        expected = ["u:q", "a:a (cancelled)", "u:r", "a:a (cancelled)"]
        assert await stored(chat) == expected * 2
