"""The machinery under the servers, tried with a small program in place of a database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers.ports import PORTS, accepts, free_port
from tests.servers.process import POLL, ServerError, ServerProcess

LISTEN = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print('up', flush=True)"
PARENT = """
import sys
from pathlib import Path
from tests.servers.test_process import Listener
server = Listener(Path(sys.argv[1]))
server.launch()
if sys.argv[2] == "paused":
    server.pause()
print(server.pid, flush=True)
sys.stdin.read()
"""


class Listener(ServerProcess):
    """Listens, says so, and waits."""

    program = f"{LISTEN}; s.accept(); s.accept(); s.accept(); s.accept()"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "127.0.0.1", free_port("127.0.0.1"))

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.program, str(self.port)]

    def is_ready(self) -> bool:
        return "up" in self.logged()


class Quitter(Listener):
    program = "import sys; sys.exit('no disk')"


class Missing(Listener):
    def command(self) -> list[str]:
        return ["/no/such/server"]


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    server = Listener(tmp_path / "server")
    server.launch()
    yield server
    server.kill()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(POLL)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_server_is_gone_and_restarts_on_its_port(listener: Listener) -> None:
    pid, port = listener.pid, listener.port
    listener.kill()
    assert not exists(pid)
    assert not listener.is_running()
    assert not accepts("127.0.0.1", port)
    listener.restart()
    assert listener.pid != pid
    assert accepts("127.0.0.1", port)


def test_a_paused_server_runs_on_after_resume_and_can_be_stopped_while_paused(listener: Listener) -> None:
    listener.pause()
    assert listener.is_paused()
    assert listener.is_running()
    listener.resume()
    assert not listener.is_paused()
    listener.pause()
    listener.stop()
    assert not listener.is_running()
    assert not listener.is_paused()


def test_stopping_twice_is_harmless_and_signalling_what_is_gone_is_an_error(listener: Listener) -> None:
    listener.stop()
    listener.stop()
    listener.kill()
    with pytest.raises(ServerError, match="not running"):
        listener.pause()


@pytest.mark.parametrize(("server", "said"), [(Quitter, "no disk"), (Missing, "/no/such/server")])
def test_a_failed_start_says_what_the_log_says(server: type[Listener], said: str, tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=said):
        server(tmp_path).launch()


def test_the_log_of_an_earlier_launch_does_not_make_a_server_ready(listener: Listener) -> None:
    listener.kill()
    listener.program = "import time; print('starting', flush=True); time.sleep(60)"
    listener.spawn()
    wait_for(lambda: "starting" in listener.logged())
    with pytest.raises(ServerError, match="not ready"):
        listener.wait_until_ready(seconds=0)


@pytest.mark.parametrize("state", ["running", "paused"])
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_no_server_outlives_its_parent(state: str, sign: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "server"
    command = [sys.executable, "-c", PARENT, str(folder), state]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert exists(pid)
        parent.send_signal(sign)
    wait_for(lambda: not exists(pid))
    wait_for(lambda: not folder.exists())


def test_ports_are_free_and_below_the_range_of_clients(listener: Listener) -> None:
    port = free_port("127.0.0.1")
    assert port in PORTS
    assert port != listener.port
    assert not accepts("127.0.0.1", port)
