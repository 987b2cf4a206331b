"""What is built once, and what happens where it cannot be."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.servers.cache import Unavailable, cached, run, tool
from tests.servers.ports import free_port


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DIARIST_CACHE", str(tmp_path))
    return tmp_path


def test_all_who_ask_at_once_get_the_one_that_was_built(cache: Path) -> None:
    builds: list[Path] = []

    def build(folder: Path) -> None:
        builds.append(folder)
        (folder / "program").touch()

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(cached, "thing", build) for _ in range(8)]
    assert {future.result() for future in futures} == {cache / "thing"}
    assert (cache / "thing" / "program").exists()
    assert len(builds) == 1


def test_a_build_that_was_interrupted_is_begun_again(cache: Path) -> None:
    def interrupted(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached("thing", interrupted)
    cached("thing", lambda folder: (folder / "program").touch())
    assert [path.name for path in (cache / "thing").iterdir()] == ["program"]


def test_a_build_that_failed_is_tried_once_a_run(cache: Path) -> None:
    def build(folder: Path) -> None:
        run("sh", "-c", "echo fine; echo '[ERROR] no network'; exit 1", cwd=folder)

    def unreachable(folder: Path) -> None:
        raise AssertionError(folder)

    for attempt in build, unreachable:
        with pytest.raises(Unavailable, match=r"^sh failed: \[ERROR\] no network$"):
            cached("thing", attempt)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(Unavailable, match="no-such-tool is not installed"):
        tool("no-such-tool")
    with pytest.raises(Unavailable, match=r"203\.0\.113\.1 is no address"):
        free_port("203.0.113.1")
