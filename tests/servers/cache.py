"""What is downloaded or built once and kept between runs: `$DIARIST_CACHE`, or `~/.cache/diarist`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

BUILD_SECONDS = 900
_failures: dict[Path, Unavailable] = {}


class Unavailable(Exception):
    """A server cannot be had on this machine; the message is one line that says what is missing."""


def cached(name: str, build: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache. `build` fills it the first time, once for all who ask at the same time."""
    cache = Path(os.environ.get("DIARIST_CACHE") or Path.home() / ".cache" / "diarist").absolute()
    folder = cache / name
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"{name}.lock"):
        if not folder.is_dir():
            partial = cache / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            _build(build, partial)
            partial.rename(folder)
    return folder


def _build(build: Callable[[Path], None], folder: Path) -> None:
    if folder in _failures:  # one attempt a run: without a network it may take minutes
        raise _failures[folder]
    try:
        build(folder)
    except Unavailable as error:
        _failures[folder] = error
        raise


@contextmanager
def _locked(path: Path) -> Generator[None]:
    if sys.platform == "win32":
        raise Unavailable("the test servers need Linux or macOS")
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def tool(name: str) -> str:
    """The path of an executable."""
    found = shutil.which(name)
    if not found:
        raise Unavailable(f"{name} is not installed")
    return found


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """The output of a build step; when it fails, its first line that speaks of an error becomes `Unavailable`."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{Path(command[0]).name} took more than {BUILD_SECONDS} s") from error
    if done.returncode:
        raise Unavailable(f"{Path(command[0]).name} failed: {_complaint(done.stdout + done.stderr)}")
    return done.stdout


def _complaint(output: str) -> str:
    plain = re.sub(r"\x1b\[[\d;]*m", "", output)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no output"])[0][:300]
