"""The store that a command works on."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import typer

from diarist.adapters.cli.console import complain, one_line
from diarist.backends.sqlite.settings import SQLiteSettings, parse_url
from diarist.runtime.errors import BackendError
from diarist.runtime.memory import ChatMemory
from diarist.runtime.windows import MessageWindow


def check_url(url: str) -> str:
    """A wrong usage if it is no URL at all; the stores look at the rest."""
    if not urlsplit(url).scheme or "://" not in url:
        raise typer.BadParameter(
            f"{one_line(url)!r} is no URL: write sqlite:///relative.db or sqlite:////absolute.db",
            param_hint="--store",
        )
    return url


def file_of(url: str) -> Path | None:
    """The file of a SQLite store; None for any other."""
    if urlsplit(url).scheme != "sqlite":
        return None
    return Path(parse_url(url, SQLiteSettings())[0])


def url_of(path: Path) -> str:
    """The URL of a SQLite file."""
    return f"sqlite:///{quote(os.fspath(path.absolute()), errors='surrogateescape')}"


@asynccontextmanager
async def opened(url: str, *, make: bool = False, window: int = 20) -> AsyncGenerator[ChatMemory, None]:
    """A memory over the store. Unless `make` is set, a file that is not there is an error, and is not made.

    What the drain at the end could not do is told.
    """
    check_url(url)
    path = file_of(url)
    if path is not None and not make and not path.exists():
        raise BackendError(f"there is no store {path}", outcome="not_executed")
    async with ChatMemory.open(url, window=MessageWindow(window)) as memory:
        try:
            yield memory
        finally:
            report = await memory.drain()
            if not report.clean:
                complain(
                    f"at the end {report.not_executed} operations were not executed, "
                    f"and {report.unknown} have an unknown outcome"
                )
