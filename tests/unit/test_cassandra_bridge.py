"""The bridge between the driver's thread and the loop, with a driver that answers when it is told to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from diarist.backends.cassandra.bridge import Bridge


class Response:
    answer: Callable[[], None]
    fail: Callable[[BaseException], None]

    def add_callbacks(
        self, callback: Callable[..., None], errback: Callable[..., None], callback_args: Any, errback_args: Any
    ) -> None:
        self.answer = lambda: callback([{"n": 1}], *callback_args)
        self.fail = lambda error: errback(error, *errback_args)


class Session:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[Response] = []

    def execute_async(self, statement: object, **_options: object) -> Response:
        if isinstance(statement, Exception):
            raise statement
        self.sent.append(Response())
        return self.sent[-1]


def in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


async def sent(session: Session, count: int) -> None:
    while len(session.sent) < count:  # noqa: ASYNC110 - turns of the loop are what it waits for
        await asyncio.sleep(0)


async def test_many_answers_one_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    bridge = Bridge(session, 1.0, 100, None)
    answers = [bridge.request(lambda: "x") for _ in range(50)]
    await sent(session, 50)
    loop = asyncio.get_running_loop()
    wake = loop.call_soon_threadsafe
    wakes: list[Callable[[], None]] = []

    def counted(callback: Callable[[], None]) -> object:
        wakes.append(callback)
        return wake(callback)

    def answer_all() -> None:
        for response in session.sent:
            response.answer()

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    in_thread(answer_all)
    assert await asyncio.gather(*answers) == [[{"n": 1}]] * 50
    assert len(wakes) == 1
    assert bridge.in_flight == 0


async def test_requests_in_flight_are_bounded() -> None:
    session = Session()
    bridge = Bridge(session, 1.0, 3, None)
    answers = [bridge.request(lambda: "x") for _ in range(7)]
    for done in range(7):
        await sent(session, min(7, done + 3))
        assert len(session.sent) == min(7, done + 3)
        in_thread(session.sent[done].answer)
        await answers[done]
    await bridge.idle()


async def test_a_caller_that_is_cancelled_keeps_its_place_until_the_answer() -> None:
    session = Session()
    bridge = Bridge(session, 1.0, 1, None)
    first, second, third = (bridge.request(lambda: "x") for _ in range(3))
    await sent(session, 1)
    first.cancel()
    second.cancel()
    await asyncio.sleep(0)
    assert len(session.sent) == 1
    in_thread(session.sent[0].answer)
    await sent(session, 2)
    in_thread(session.sent[1].answer)
    assert await third == [{"n": 1}]
    assert len(session.sent) == 2, "a cancelled request was sent"


@pytest.mark.parametrize("size", [0, 1 << 20])
async def test_what_cannot_be_sent_is_an_error_of_its_caller(size: int) -> None:
    session = Session()
    bridge = Bridge(session, 1.0, 1, None)

    def unfit() -> object:
        raise ValueError("unfit")

    with pytest.raises(ValueError, match="unfit"):
        await bridge.request(unfit, size)
    with pytest.raises(RuntimeError, match="shut down"):
        await bridge.request(lambda: RuntimeError("shut down"), size)
    answer = bridge.request(lambda: "x", size)
    await sent(session, 1)
    in_thread(lambda: session.sent[0].fail(OSError("cut")))
    with pytest.raises(OSError, match="cut"):
        await answer
    await bridge.idle()


def test_an_answer_after_the_loop_is_dropped() -> None:
    session = Session()

    async def ask() -> None:
        Bridge(session, 1.0, 1, None).request(lambda: "x")
        await sent(session, 1)

    asyncio.run(ask())
    in_thread(session.sent[0].answer)
