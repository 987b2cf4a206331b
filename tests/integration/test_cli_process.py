"""The command line in a process of its own: how it starts, what it needs, how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import ROOT, SAMPLE, Done, diarist, finish, start

SHORT = ("demo", "--conversations", "8", "--seconds", "2")


def without(package: str) -> Done:
    code = f"import sys; sys.modules[{package!r}] = None; from diarist.__main__ import main; main()"
    command = [sys.executable, "-c", code, "list"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_packages_it_says_what_to_install(package: str) -> None:
    done = without(package)
    line = f"diarist: the command line needs {package}: pip install 'diarist[cli]'\n"
    assert (done.code, done.out, done.err) == (2, "", line)


def test_a_module_of_ours_that_is_missing_is_no_package_to_install() -> None:
    done = without("diarist.adapters.cli.loading")
    assert done.code == 1
    assert "Traceback" in done.err


def test_python_m(tmp_path: Path) -> None:
    """Bytes as they are, with warnings as errors."""
    url = f"sqlite:///{tmp_path}/chat.db"
    assert finish(start("load", SAMPLE, "--store", url)).code == 0
    done = finish(start("export", "--store", url))
    assert (done.code, done.err) == (0, "")
    assert done.out == diarist("export", "--store", url).out


def test_who_reads_may_leave(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    assert diarist("load", SAMPLE, "--store", url).code == 0
    for command in (["export"], ["list"], ["show", "bakery"]):
        process = start(*command, "--store", url)
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        done = finish(process)
        assert (done.code, done.err) == (1, ""), command


def test_the_demo_ends_by_itself_and_proves_its_claim() -> None:
    done = finish(start(*SHORT, "--json"))
    assert done.code == 0, done
    [result] = done.objects
    told, plain = result["Diarist"], result["get-append-save"]
    assert told["acknowledged"] == told["found"] > 0
    assert told["acknowledged"] == 2 * told["turns"]
    assert (told["lost"], told["doubled"], told["unordered"], told["unpromised"]) == (0, 0, 0, 0)
    assert plain["acknowledged"] == plain["found"] + plain["lost"]
    assert plain["lost"] > 0


def test_the_demo_takes_real_chats_and_keeps_them_in_a_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    done = finish(start(*SHORT, "--input", SAMPLE, "--store", url))
    assert done.code == 0, done
    assert "PROOF" in done.out
    assert f"kept in {url}, namespace demo-" in done.out
    assert {path.name for path in tmp_path.iterdir()} <= {"chat.db", "chat.db-wal", "chat.db-shm"}
    [first, *_] = diarist("export", "--store", url).objects
    assert [message["role"] for message in first["messages"]][:3] == ["system", "user", "assistant"]


def test_the_demo_refuses_what_it_cannot_read_back(tmp_path: Path) -> None:
    assert diarist(*SHORT, "--store", "memory://").code == 2
    (tmp_path / "bad.jsonl").write_text("{}\n")
    assert diarist(*SHORT, "--input", tmp_path / "bad.jsonl").code == 2
    assert diarist(*SHORT, "--store", f"sqlite:///{tmp_path}/none/a.db").code == 1
