"""What all servers here share: a process with a log, a deadline, and the signals that fault tests send."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path

POLL = 0.05
DEADLINE = 120.0
STOP_DEADLINE = 15.0
LOG_LINES = 15
GUARD = Path(__file__).with_name("guard.py")


class ServerError(Exception):
    """A server did not start, or is not there to be signalled. The message ends with the end of its log."""


class ServerProcess(ABC):
    """One server on loopback, in a folder of its own. It never outlives this process."""

    def __init__(self, folder: Path, address: str, port: int) -> None:
        self.folder = folder
        self.address = address
        self.port = port
        self.log = folder / "server.log"
        self._guard: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._paused = False
        self._log_start = 0
        folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def command(self) -> list[str]:
        """The command line; called at every launch."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the process launched last takes clients."""

    @property
    def pid(self) -> int:
        """The server's own process id. Raises `ServerError` when it doesn't run."""
        if not self.is_running():
            raise self._error("is not running")
        return self._pid

    def is_running(self) -> bool:
        """True for a paused server too."""
        return self._guard is not None and self._guard.poll() is None

    def is_paused(self) -> bool:
        """True between `pause()` and `resume()`."""
        return self._paused and self.is_running()

    def launch(self) -> None:
        """Starts the process and returns when it is ready. Raises `ServerError`."""
        self.spawn()
        self.wait_until_ready()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """SIGCONT; harmless when it was not paused."""
        os.kill(self.pid, signal.SIGCONT)
        self._paused = False

    def kill(self) -> None:
        """SIGKILL; returns when it is gone and its ports are free. Nothing happens when it doesn't run."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, also to a paused server, and SIGKILL after 15 s. Nothing happens when it doesn't run."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Starts it again on the same data and ports, after `kill()`, `stop()` or while it runs (stopped first)."""
        self.stop()
        self.launch()

    def logged(self, since: int | None = None) -> str:
        """What was logged since the last launch, or from a `log_size` on."""
        with self.log.open("rb") as file:
            file.seek(self._log_start if since is None else since)
            return file.read().decode(errors="replace")

    def log_size(self) -> int:
        """Bytes logged over all launches."""
        return self.log.stat().st_size if self.log.exists() else 0

    def spawn(self) -> None:
        """Starts the process and returns at once."""
        command = [sys.executable, "-I", "-S", str(GUARD), str(os.getpid()), str(self.folder), *self.command()]
        self._pid = 0
        self._paused = False
        self._log_start = self.log_size()
        with self.log.open("ab") as log:
            # A session of its own keeps Ctrl-C in the terminal away: whoever started the server stops it.
            self._guard = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert self._guard.stdout is not None
        with self._guard.stdout as answer:
            self._pid = int(answer.readline() or 0)
        if not self._pid:
            self._guard.wait()
            raise self._error("could not be executed")

    def wait_until_ready(self, seconds: float = DEADLINE) -> None:
        """Raises `ServerError` at the deadline or when the server exits first."""
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            if not self.is_running():
                raise self._error("exited")
            if time.monotonic() > deadline:
                raise self._error(f"is not ready after {seconds:g} s")
            time.sleep(POLL)

    def _end(self, sign: signal.Signals) -> None:
        guard = self._guard
        if guard is None or guard.poll() is not None:
            return
        if not self._pid:
            guard.kill()  # it was interrupted before it named the server
        self._signal(sign)
        self._signal(signal.SIGCONT)
        try:
            guard.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            guard.wait()

    def _signal(self, sign: signal.Signals) -> None:
        if self._pid:
            with suppress(ProcessLookupError):  # the guard has seen its end before we have
                os.kill(self._pid, sign)

    def _error(self, what: str) -> ServerError:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        name = f"{type(self).__name__} on {self.address}:{self.port}"
        return ServerError("\n".join([f"{name} {what}; its log ends:", *lines[-LOG_LINES:]]))
