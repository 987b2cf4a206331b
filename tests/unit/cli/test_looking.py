"""list, show, delete, and what all commands share."""

from __future__ import annotations

from pathlib import Path

import pytest

from diarist import BackendError
from tests.support.cli import SAMPLE, diarist

ODD = " odd\t'id'\x00\n"


def test_list_shows_each_conversation_on_a_line(loaded: str) -> None:
    done = diarist("list", "--store", loaded)
    assert done.code == 0
    header, *rows = done.out.splitlines()
    assert header.split() == ["VERSION", "UPDATED", "(UTC)", "NAMESPACE", "ID", "TITLE"]
    assert [row.split()[0] for row in rows] == ["2", "7", "3", "4"]
    assert repr(ODD) in rows[0]
    assert "tenant-1" in rows[3]


def test_list_of_one_namespace_and_of_some(loaded: str) -> None:
    assert [
        card["id"] for card in diarist("list", "--json", "--store", loaded, "--namespace", "tenant-1").objects
    ] == ["parts"]
    assert len(diarist("list", "--json", "--store", loaded, "--limit", "2").objects) == 2


def test_show_is_readable(loaded: str) -> None:
    done = diarist("show", "bakery", "--store", loaded)
    assert done.code == 0
    assert done.out.startswith("bakery\nversion 7, created ")
    assert 'assistant\n→ stock({"bread": "rye"})  c1\n' in done.out
    assert 'tool (result of c1)\n{"left": 3}\n' in done.out
    assert "user (#5)\nThanks." in diarist("show", "bakery", "--log", "--store", loaded).out


def test_show_takes_nothing_for_markup_or_control(loaded: str) -> None:
    assert "[bold]A cat[/bold]" in diarist("show", "parts", "--namespace", "tenant-1", "--store", loaded).out
    done = diarist("show", "--log", "own ids", "--store", loaded)
    assert "user (#1, Ada)\nHi" in done.out


def test_show_marks_what_left_the_view(url: str) -> None:
    assert diarist("load", SAMPLE, "--store", url, "--window", "2").code == 0
    out = diarist("show", "bakery", "--log", "--store", url).out
    assert "user (#1, out of view)" in out
    assert "user (#5)" in out


def test_show_as_json(loaded: str) -> None:
    [card] = diarist("show", "bakery", "--json", "--store", loaded).objects
    assert card["version"] == 7
    assert [message["role"] for message in card["messages"]][:2] == ["system", "user"]
    [log] = diarist("show", "bakery", "--json", "--log", "--store", loaded).objects
    assert log["messages"][0] == {
        "version": 1,
        "position": 0,
        "in_view": True,
        "message": card["messages"][0],
    }


def test_delete_erases_one(loaded: str) -> None:
    done = diarist("delete", "bakery", "--yes", "--store", loaded)
    assert (done.code, done.out) == (0, "erased bakery\n")
    assert len(diarist("list", "--json", "--store", loaded).objects) == 3
    assert diarist("show", "bakery", "--store", loaded).code == 1


def test_delete_asks_and_does_nothing_where_nobody_can_answer(loaded: str) -> None:
    done = diarist("delete", "bakery", "--store", loaded)
    assert done.code == 2
    assert "--yes" in done.err
    assert len(diarist("list", "--json", "--store", loaded).objects) == 4


@pytest.mark.parametrize("command", ["show", "delete"])
def test_who_is_not_there(loaded: str, command: str) -> None:
    more = ["--yes"] if command == "delete" else []
    done = diarist(command, *more, "--store", loaded, "--", "-x")
    assert (done.code, done.err) == (1, "diarist: there is no conversation -x\n")


@pytest.mark.parametrize("command", [["list"], ["export"], ["show", "a"], ["delete", "a", "--yes"]])
def test_looking_makes_no_store(tmp_path: Path, command: list[str]) -> None:
    done = diarist(*command, "--store", f"sqlite:///{tmp_path}/none.db")
    assert done.code == 1
    assert done.err == f"diarist: there is no store {tmp_path}/none.db\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("store", "code", "text"),
    [
        ("chat.db", 2, "is no URL: write sqlite:///relative.db"),
        ("redis://x", 1, "nothing is registered for 'redis' (known: "),
        ("sqlite://chat.db", 1, "with three slashes or four"),
        ("sqlite:///a.db?sync=1", 1, "there is no option 'sync'"),
    ],
)
def test_an_error_is_one_line_on_stderr(store: str, code: int, text: str) -> None:
    done = diarist("list", "--store", store)
    assert done.code == code
    assert text in " ".join(done.err.split())
    assert done.out == ""
    assert code == 2 or done.err.count("\n") == 1


def test_debug_lets_the_error_through(tmp_path: Path) -> None:
    with pytest.raises(BackendError):
        diarist("list", "--debug", "--store", f"sqlite:///{tmp_path}/none.db")


def test_a_file_of_another_application(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("no database " * 100)
    done = diarist("list", "--store", f"sqlite:///{tmp_path}/a.db")
    assert done.code == 1
    assert "is not a SQLite database" in done.err


def test_the_store_may_come_from_the_environment(loaded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIARIST_STORE", loaded)
    assert len(diarist("list", "--json").objects) == 4


def test_usage() -> None:
    assert diarist("list").code == 2
    assert diarist("nonsense").code == 2
    assert diarist("--version").out.startswith("diarist 0.")
    assert "Exit codes" in diarist("--help").out
