"""What the doctor says of sound and of broken stores."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from diarist.adapters.cli import checks
from tests.support.cli import Done, diarist


def statuses(done: Done) -> dict[str, str]:
    return {finding["check"]: finding["status"] for finding in done.objects[0]}


def has_bug(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    def has_reset_bug(_version: tuple[int, ...]) -> bool:
        return answer

    monkeypatch.setattr(checks, "has_reset_bug", has_reset_bug)


def look(url: str, *more: str) -> Done:
    return diarist("doctor", url, "--quick", "--json", *more)


def test_a_sound_store(loaded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    has_bug(monkeypatch, False)
    done = look(loaded, "--integrity")
    found = statuses(done)
    assert done.code == 0
    assert found.pop("file") in ("ok", "note")
    assert found.pop("disk") in ("ok", "warn")
    names = ["diarist", "packages", "store", "sqlite", "schema", "journal", "integrity", "durability"]
    assert found == dict.fromkeys(names, "ok")


@pytest.mark.timeout(120)
def test_the_self_test_leaves_nothing_behind(loaded: str, tmp_path: Path) -> None:
    before = diarist("export", "--full", "--store", loaded).out
    done = diarist("doctor", loaded)
    assert done.code == 0, done
    assert "ok    self-test: " in done.out
    assert {path.name for path in tmp_path.iterdir()} <= {"chat.db", "chat.db-wal", "chat.db-shm"}
    assert diarist("export", "--full", "--store", loaded).out == before


def test_memory_has_a_self_test() -> None:
    done = diarist("doctor", "memory://", "--json")
    assert done.code == 0
    assert statuses(done)["self-test"] == "ok"


def test_an_old_library_is_a_warning_and_no_failure(loaded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    has_bug(monkeypatch, True)
    done = look(loaded)
    assert done.code == 0
    assert statuses(done)["sqlite"] == "warn"
    assert "WAL-reset bug" in done.out


def test_less_durability_is_a_warning(loaded: str) -> None:
    done = look(loaded + "&synchronous=normal")
    assert (done.code, statuses(done)["durability"]) == (0, "warn")


def test_a_store_that_is_not_made_yet_is_not_made(tmp_path: Path) -> None:
    done = look(f"sqlite:///{tmp_path}/new.db")
    assert (done.code, statuses(done)["store"]) == (0, "note")
    assert list(tmp_path.iterdir()) == []


def test_no_directory(tmp_path: Path) -> None:
    done = look(f"sqlite:///{tmp_path}/none/new.db")
    assert (done.code, statuses(done)["folder"]) == (1, "fail")


def test_the_self_test_needs_its_directory(tmp_path: Path) -> None:
    done = diarist("doctor", "--json", f"sqlite:///{tmp_path}/none/new.db")
    assert (done.code, statuses(done)["self-test"]) == (1, "fail")


def test_a_file_of_another_application(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    found = statuses(look(f"sqlite:///{tmp_path}/a.db"))
    assert (found["store"], found["schema"]) == ("fail", "fail")


def test_a_newer_schema(loaded: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "chat.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    done = look(loaded)
    found = statuses(done)
    assert (done.code, found["store"], found["schema"]) == (1, "fail", "fail")
    assert "has schema 99" in done.out


def test_no_database_at_all(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("no database " * 100)
    found = statuses(look(f"sqlite:///{tmp_path}/a.db"))
    assert (found["store"], found["database"]) == ("fail", "fail")


def test_a_damaged_file(loaded: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 4))
    done = look(loaded, "--integrity")
    assert done.code == 1


@pytest.mark.parametrize(("free", "status"), [(10 << 30, "ok"), (1 << 29, "warn"), (1 << 20, "fail")])
def test_free_space(loaded: str, monkeypatch: pytest.MonkeyPatch, free: int, status: str) -> None:
    usage = shutil.disk_usage(".")._replace(free=free)

    def disk_usage(_path: Path) -> object:
        return usage

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    assert statuses(look(loaded))["disk"] == status


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize(("mode", "status"), [(0o600, "ok"), (0o644, "note"), (0o666, "warn")])
def test_who_may_read_and_write(loaded: str, tmp_path: Path, mode: int, status: str) -> None:
    (tmp_path / "chat.db").chmod(mode)
    assert statuses(look(loaded))["file"] == status
