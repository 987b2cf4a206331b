"""`diarist doctor`: is this store well, and would this machine keep what it acknowledges?"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.text import Text

from diarist.adapters.cli.checks import Finding, cassandra_driver, machine, reachable, self_test, sqlite_file
from diarist.adapters.cli.console import complain, one_line, stdout
from diarist.adapters.cli.options import Debug, Json
from diarist.adapters.cli.running import Stop, run
from diarist.adapters.cli.stores import check_url, file_of

STYLES = {"ok": "green", "note": "dim", "warn": "yellow", "fail": "bold red"}


def doctor(
    store: Annotated[str, typer.Argument(metavar="URL", envvar="DIARIST_STORE", help="The store to look at.")],
    quick: Annotated[bool, typer.Option("--quick", help="Leave the self-test out.")] = False,
    integrity: Annotated[bool, typer.Option("--integrity", help="Read the whole SQLite file too.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Check a store: reachable, schema, versions, durability, permissions, free space, and the conformance suite.

    The suite runs on scratch data beside the store, which goes again; conversations are never touched. Exit code 1 if
    a check fails; a warning is no failure.
    """
    check_url(store)

    async def command(_stop: Stop) -> int:
        findings: list[Finding] = []
        console = stdout()
        async for finding in examine(store, quick=quick, integrity=integrity):
            findings.append(finding)
            if not as_json:
                line = Text(f"{finding.status:<5} ", style=STYLES[finding.status])
                line.append(f"{finding.name}: ", style="bold")
                line.append(one_line(finding.text), style="not bold default")
                console.print(line)
        if as_json:
            print(json.dumps([{"check": f.name, "status": f.status, "text": f.text} for f in findings]))
        return 1 if any(finding.status == "fail" for finding in findings) else 0

    run(command, debug=debug)


async def examine(store: str, *, quick: bool, integrity: bool) -> AsyncIterator[Finding]:
    """All checks, in the order in which one would look."""
    for finding in machine():
        yield finding
    if urlsplit(store).scheme == "cassandra":
        yield cassandra_driver()
    path = file_of(store)
    if path is not None and not path.exists():
        yield Finding("store", "note", f"there is no file {path} yet; the first write makes it")
    else:
        async for finding in reachable(store):
            yield finding
    if path is not None:
        for finding in sqlite_file(path, store, integrity=integrity):
            yield finding
    if not quick:
        complain("the self-test runs, on scratch data …")
        yield await self_test(store)
