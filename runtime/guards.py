"""Who may use a memory: its own loop, thread and process, while it is open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from enum import IntEnum
from threading import get_ident
from typing import Final

from diarist.runtime.errors import ClosedError, ForkedError, WrongLoopError


class _Forks:
    """Counts, in a child, the forks that lie between it and the process that opened a memory."""

    count = 0

    @classmethod
    def forked(cls) -> None:
        cls.count += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forks.forked)


class Life(IntEnum):
    NEW = 0
    OPEN = 1
    DRAINING = 2
    CLOSED = 3


_OPEN: Final = Life.OPEN  # half the time of looking it up in its class, on the way of every call


class Guard:
    """Checks each call; a wrong one is a typed error at once, not a hang later."""

    __slots__ = ("_forks", "_is_running", "_loop", "_thread", "forked", "life")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_running: Callable[[], bool] = lambda: False
        self._thread = 0
        self._forks = _Forks.count
        self.life = Life.NEW
        self.forked = False
        """Whether the memory was made before a fork and is opened in the child."""

    def bind(self) -> None:
        """Belong to the running loop, in this process, from now on."""
        if self._loop is not None or self.life is not Life.NEW:
            raise RuntimeError("a memory is entered once: make another one")
        self.forked = self._forks != _Forks.count
        self._forks = _Forks.count
        self._loop = asyncio.get_running_loop()
        self._is_running = self._loop.is_running
        self._thread = get_ident()

    def open(self) -> None:
        """Let calls in."""
        if self.life is not Life.NEW:
            raise ClosedError("the memory was closed while it was being opened")
        self.life = Life.OPEN

    def refuse(self) -> None:
        """Let no new calls in, from this moment on."""
        self.life = Life.DRAINING if self.life is Life.OPEN else Life.CLOSED

    def check(self) -> None:
        """Raise unless the memory is open and this is its loop."""
        # A loop that runs in this thread is the running one. asyncio.get_running_loop() would ask the kernel for the
        # process id each time (Python 3.11): a quarter of the time of a snapshot read.
        if self.life is _OPEN and get_ident() == self._thread and self._forks == _Forks.count and self._is_running():
            return
        self.check_place()
        if self.life is Life.NEW:
            raise ClosedError("the memory is not open yet: use `async with`")
        raise ClosedError("the memory is closed" if self.life is Life.CLOSED else "the memory is draining")

    def check_place(self) -> None:
        """Raise unless this is the memory's loop, thread and process."""
        if self._loop is None:
            return
        if self._forks != _Forks.count:
            raise ForkedError("the memory was opened before a fork: open one of its own in the child")
        try:
            right = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            right = False
        if not right:
            raise WrongLoopError("the memory belongs to another event loop or thread: open one for each loop")
