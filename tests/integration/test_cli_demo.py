"""The demo inside this process: its parts, and what it leaves behind."""

from __future__ import annotations

import asyncio
import io
import signal
import threading
from pathlib import Path

import pytest
from rich.console import Console

from diarist import BackendError, ChatMemory, Message
from diarist.adapters.cli.demo.chats import Exchange, invented
from diarist.adapters.cli.demo.clients import GIVE_UP, Begin, Clients
from diarist.adapters.cli.demo.command import Demo, Load
from diarist.adapters.cli.demo.meter import Meter
from diarist.adapters.cli.demo.proof import Read, log_reader
from diarist.adapters.cli.running import Stop
from diarist.adapters.models import ScriptedModel


def demo(stop: Stop, *, terminal: bool = False) -> tuple[Demo, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, color_system=None, highlight=False)
    return Demo(Load(invented(1), 5, 2.0), ScriptedModel(delay=0.001, pause=stop.pause), stop, console), out


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
async def test_no_task_and_no_thread_is_left(tmp_path: Path, terminal: bool) -> None:
    before = set(threading.enumerate())
    show, out = demo(Stop(), terminal=terminal)
    await show.run(f"sqlite:///{tmp_path}/a.db", tmp_path / "plain.db")
    assert asyncio.all_tasks() == {asyncio.current_task()}
    for thread in set(threading.enumerate()) - before:
        thread.join(5.0)
    assert set(threading.enumerate()) <= before
    show.print_result(kept=None)
    assert "PROOF  In 5 chats, all" in out.getvalue()
    assert show.code == 0


async def test_asked_to_end_before_it_began(tmp_path: Path) -> None:
    stop = Stop()
    stop.signal = signal.SIGTERM
    show, out = demo(stop)
    await show.run(f"sqlite:///{tmp_path}/a.db", tmp_path / "plain.db")
    show.print_result(kept=None)
    assert "nothing is proved" in out.getvalue()
    assert list(show.report()) == ["Diarist"]
    assert (show.code, stop.code) == (0, 143)


async def test_a_way_that_forgets_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof can fail: here every answer of the first chat is dropped when it is read back."""

    def forgetful(memory: ChatMemory, namespace: str) -> Read:
        read = log_reader(memory, namespace)

        async def reading(id: str) -> list[Message]:
            found = await read(id)
            return [message for message in found if message.role == "user"] if id == "chat-00000" else found

        return reading

    monkeypatch.setattr("diarist.adapters.cli.demo.command.log_reader", forgetful)
    show, out = demo(Stop())
    await show.run(f"sqlite:///{tmp_path}/a.db", tmp_path / "plain.db")
    show.print_result(kept=None)
    assert show.code == 1
    assert "BROKEN" in out.getvalue()
    assert show.report()["Diarist"]["lost"] > 0


class Broken:
    """A way to keep chats whose store is gone."""

    def __init__(self) -> None:
        self.calls = 0

    async def exchange(self, id: str, exchange: Exchange, begin: Begin, meter: Meter) -> float:
        self.calls += 1
        raise BackendError("the disk is full")


async def test_a_store_that_is_gone_ends_the_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_time(_seconds: float) -> None:
        """Failures are waited out; a test has no time."""

    monkeypatch.setattr("diarist.adapters.cli.demo.clients.asyncio.sleep", no_time)
    clients, way = Clients(invented(1), 2, lambda: False), Broken()
    await clients.run(way)
    assert GIVE_UP <= clients.meter.failed == way.calls < GIVE_UP + 6
    assert clients.meter.failure == "the disk is full (it is not known whether this was executed)"
    assert clients.ledger.notes == {}
