"""`diarist delete`: erase one conversation."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from diarist.adapters.cli.console import complain, show_id
from diarist.adapters.cli.options import Debug, Id, Namespace, Store
from diarist.adapters.cli.running import Stop, run
from diarist.adapters.cli.stores import opened


def delete(
    id: Id,
    store: Store,
    namespace: Namespace = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    debug: Debug = False,
) -> None:
    """Erase a conversation, log included. It can't be brought back. Exit code 1 if it is not there."""
    if not yes:
        if not sys.stdin.isatty():
            complain("this erases for good: say --yes where nobody can be asked")
            raise typer.Exit(2)
        where = f" in {show_id(namespace)}" if namespace else ""
        typer.confirm(f"Erase conversation {show_id(id)}{where} for good?", abort=True)

    async def command(_stop: Stop) -> int:
        async with opened(store) as memory:
            chat = memory.conversation(id, namespace=namespace)
            if await chat.info() is None:
                complain(f"there is no conversation {show_id(id)}")
                return 1
            await chat.delete()
            print(f"erased {show_id(id)}", flush=True)
        return 0

    run(command, debug=debug)
