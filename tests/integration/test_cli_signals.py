"""Ctrl-C and SIGTERM at any moment: what was acknowledged is there, and the process ends."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.cli import diarist, finish, start, wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals to a process are POSIX's")

MOMENTS = {
    "before the first turn": "clients in each",
    "in the middle": " turns 1",
    "during the proof": "reading",
    "during the plain phase": "get-append-save ",
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_the_demo_ends_with_a_report(number: signal.Signals, moment: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    process = start("demo", "--conversations", "30", "--seconds", "6", "--store", url)
    wait_for(process, moment)
    process.send_signal(number)
    done = finish(process, 40.0)
    assert done.code == 128 + number, done
    assert done.err == "diarist: interrupted: the turns that had begun were finished, and nothing is left over\n"
    assert "LOST" in done.out
    assert "BROKEN" not in done.out
    assert {path.name for path in tmp_path.iterdir()} <= {"chat.db", "chat.db-wal", "chat.db-shm"}
    assert "PROOF" in done.out or "nothing is proved" in done.out


def test_an_impatient_second_one_ends_the_demo_too(tmp_path: Path) -> None:
    process = start("demo", "--conversations", "300", "--seconds", "30", "--store", f"sqlite:///{tmp_path}/chat.db")
    wait_for(process, " turns 1")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    done = finish(process, 40.0)
    assert done.code in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert "Traceback" not in done.err


def test_an_interrupted_load_goes_on(tmp_path: Path) -> None:
    """The chats come through a pipe, so that the load is surely in its middle."""
    url, pipe = f"sqlite:///{tmp_path}/chat.db", tmp_path / "chats.jsonl"
    lines = [json.dumps({"id": f"c{n}", "messages": [{"role": "user", "content": str(n)}] * 3}) for n in range(400)]
    os.mkfifo(pipe)
    process = start("load", pipe, "--store", url, "--concurrency", "4")
    with suppress(BrokenPipeError), pipe.open("w") as file:
        file.write("\n".join(lines[:100]) + "\n")
        file.flush()
        process.send_signal(signal.SIGINT)
        file.write("\n".join(lines[100:200]) + "\n")
    done = finish(process)
    assert done.code == 130
    assert "the same command again goes on" in done.err
    assert "Traceback" not in done.err
    pipe.unlink()
    pipe.write_text("\n".join(lines))
    assert diarist("load", pipe, "--store", url).code == 0
    chats = diarist("export", "--store", url).objects
    assert sorted(len(chat["messages"]) for chat in chats) == [3] * 400


def test_chat_keeps_what_came_before_ctrl_c(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    process = start("chat", "mine", "--store", url)
    assert process.stdin is not None
    wait_for(process, "> ")
    process.stdin.write("Tell me a lot\n")
    process.stdin.flush()
    wait_for(process, " ")
    process.send_signal(signal.SIGINT)
    wait_for(process, "(stopped; what came is kept)")
    process.stdin.write("Go on\n")
    process.stdin.flush()
    wait_for(process, "> ")
    wait_for(process, "> ")
    done = finish(process)
    assert (done.code, done.err) == (0, "")
    [chat] = diarist("export", "--store", url).objects
    question, cut, second, whole = chat["messages"]
    assert (question["content"], second["content"]) == ("Tell me a lot", "Go on")
    assert (cut["status"], whole["status"]) == ("cancelled", "complete")
    assert cut["content"].strip()


def test_chat_ends_at_sigterm_and_at_an_interrupt_while_it_waits(tmp_path: Path) -> None:
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 0)):
        process = start("chat", "--store", f"sqlite:///{tmp_path}/chat.db")
        wait_for(process, "> ")
        process.send_signal(number)
        done = finish(process)
        assert (done.code, done.err) == (code, "")
