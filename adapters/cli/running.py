"""Running a command's coroutine: signals, errors and exit codes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer

from diarist.adapters.cli.console import complain, one_line
from diarist.runtime.errors import DiaristError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether somebody asked the command to end. The first signal sets it, the next one cancels the command, and one
    more ends the process at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def code(self) -> int:
        """The exit code that the signal asks for; 0 without one."""
        return 0 if self.signal is None else 128 + self.signal

    async def pause(self, seconds: float) -> None:
        """Sleep; once somebody asked to end, not at all."""
        if not self:
            await asyncio.sleep(seconds)


Command = Callable[[Stop], Coroutine[Any, Any, int]]


def run(command: Command, *, debug: bool = False, graceful: bool = False) -> None:
    """Run a command to its exit code.

    `graceful`: it looks at its `Stop` and ends by itself when that is set; others are cancelled by the first signal.
    An error of ours, or of the operating system, is one line on stderr, unless `debug` is set.
    """
    with set_up(debug):
        code = _run(command, debug, graceful)
    raise typer.Exit(code)


@contextmanager
def set_up(debug: bool) -> Generator[None, None, None]:
    """Output that takes any text, and the library's log on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if callable(change := getattr(stream, "reconfigure", None)):
            change(errors="backslashreplace")
    with _logging(debug):
        yield


def _run(command: Command, debug: bool, graceful: bool) -> int:
    try:
        return asyncio.run(_supervised(command, graceful))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # Whoever read our output has left. Python flushes stdout at exit: give it a place to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (DiaristError, OSError) as error:
        if debug:
            raise
        complain_about(error)
        return 1


def complain_about(error: BaseException) -> None:
    """An error as one line on stderr."""
    complain(describe(error))


def describe(error: BaseException) -> str:
    """An error on one line, with what is certain about the call if that is not plain."""
    text = one_line(str(error)) or type(error).__name__
    if isinstance(error, DiaristError) and error.outcome == "unknown":
        text += " (it is not known whether this was executed)"
    return text


async def _supervised(command: Command, graceful: bool) -> int:
    stop = Stop()
    task = asyncio.ensure_future(command(stop))
    with _signals(stop, task, graceful):
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            # A Ctrl-C before or after our handler was in place.
            stop.signal = signal.SIGINT
            task.cancel()
            await asyncio.wait([task])
    if task.cancelled():
        return stop.code or 1
    return task.result()


@contextmanager
def _signals(stop: Stop, task: asyncio.Task[int], graceful: bool) -> Generator[None, None, None]:
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if task.cancelling():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        cancel = bool(stop) or not graceful
        stop.signal = number
        loop.call_soon_threadsafe(_wake, task, cancel)

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wake(task: asyncio.Task[int], cancel: bool) -> None:
    """Runs in the loop, which a signal alone does not wake on every platform."""
    if cancel:
        task.cancel()


async def ticking(work: Awaitable[None], show: Callable[[], None], every: float) -> None:
    """Do the work, and call `show` every so many seconds meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=every)
            show()
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


class _OneLine(logging.Formatter):
    """`diarist: warning: text`, without the traceback that a record may carry."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]}"
        return f"diarist: {record.levelname.lower()}: {one_line(text)}"


def _is_news(record: logging.LogRecord) -> bool:
    """The store warns of an old SQLite at each start. Here `diarist doctor` is the place for that."""
    return not hasattr(record, "sqlite_version")


@contextmanager
def _logging(debug: bool) -> Generator[None, None, None]:
    logger = logging.getLogger("diarist")
    handler = logging.StreamHandler()
    level = logger.level
    if debug:
        logger.setLevel(logging.DEBUG)
    else:
        handler.setFormatter(_OneLine())
        handler.addFilter(_is_news)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
