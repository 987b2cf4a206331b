"""From a coroutine to an exit code."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading

import pytest
import typer

from diarist import BackendError, OutcomeUnknownError
from diarist.adapters.cli.running import Command, Stop, run, ticking


def code_of(command: Command, *, debug: bool = False, graceful: bool = False) -> int:
    with pytest.raises(typer.Exit) as caught:
        run(command, debug=debug, graceful=graceful)
    return caught.value.exit_code


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def test_the_commands_own_code() -> None:
    async def command(_stop: Stop) -> int:
        return 7

    assert code_of(command) == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_a_command(number: signal.Signals) -> None:
    seen: list[str] = []

    async def command(_stop: Stop) -> int:
        try:
            signal.raise_signal(number)
            await forever()
        finally:
            seen.append("tidied")
        return 0

    assert code_of(command) == 128 + number
    assert seen == ["tidied"]


def test_a_graceful_command_is_only_told() -> None:
    async def command(stop: Stop) -> int:
        assert not stop
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0)
        assert stop
        await stop.pause(3600)
        return stop.code

    assert code_of(command, graceful=True) == 143


def test_the_second_signal_cancels_a_graceful_one() -> None:
    async def command(_stop: Stop) -> int:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        await forever()
        return 0

    assert code_of(command, graceful=True) == 130


def test_nothing_is_left_over() -> None:
    async def command(_stop: Stop) -> int:
        return 0

    logger = logging.getLogger("diarist")
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), threading.active_count()
    handlers = list(logger.handlers)
    assert code_of(command) == 0
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), threading.active_count()) == before
    assert logger.handlers == handlers


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (BackendError("the disk\nis full", outcome="not_executed"), "the disk is full"),
        (OutcomeUnknownError("lost touch"), "lost touch (it is not known whether this was executed)"),
        (FileNotFoundError(2, "No such file", "a\x1b[2J"), "[Errno 2] No such file: 'a\\x1b[2J'"),
        (BackendError("", outcome="not_executed"), "BackendError"),
    ],
)
def test_an_error_is_one_line(error: Exception, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def command(_stop: Stop) -> int:
        raise error

    assert code_of(command) == 1
    assert capsys.readouterr().err == f"diarist: {line}\n"
    with pytest.raises(type(error)):
        run(command, debug=True)


def test_a_bug_of_ours_is_no_tidy_line() -> None:
    async def command(_stop: Stop) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(command)


def test_the_librarys_warnings_are_lines_too(capsys: pytest.CaptureFixture[str]) -> None:
    async def command(_stop: Stop) -> int:
        logging.getLogger("diarist.backends").warning("old %s", "thing", extra={"sqlite_version": "3"})
        try:
            raise OSError("the cause")
        except OSError:
            logging.getLogger("diarist.runtime").exception("it failed")
        return 0

    assert code_of(command) == 0
    assert capsys.readouterr().err == "diarist: error: it failed: the cause\n"


async def test_ticking_shows_and_hands_the_failure_on() -> None:
    shown: list[int] = []
    done = asyncio.get_running_loop().create_future()

    def show() -> None:
        shown.append(len(shown))
        if len(shown) == 3 and not done.done():
            done.set_exception(OSError("broken"))

    with pytest.raises(OSError, match="broken"):
        await ticking(done, show, 0.001)
    assert len(shown) >= 3


async def test_ticking_takes_its_work_along_when_cancelled() -> None:
    work = asyncio.ensure_future(forever())
    task = asyncio.ensure_future(ticking(work, lambda: None, 60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.cancelled()
