"""`diarist list`: which conversations there are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from diarist.adapters.cli.console import show_id, stdout
from diarist.adapters.cli.options import Debug, Json, Store
from diarist.adapters.cli.running import Stop, run
from diarist.adapters.cli.stores import opened
from diarist.runtime.results import ConversationInfo

PAGE = 200


def list_conversations(
    store: Store,
    namespace: Annotated[str | None, typer.Option(help="Only this one; without it, all of them.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the conversations of a store, ordered by namespace and id.

    An unusual id or namespace (white space at an end, control or combining characters, a quote at the start) is shown
    in quotes with escapes. With --json: one object a line.
    """

    async def command(_stop: Stop) -> int:
        console, left, cursor, first = stdout(), limit, None, True
        async with opened(store) as memory:
            while left is None or left > 0:
                size = PAGE if left is None else min(PAGE, left)
                page = await memory.conversations(namespace=namespace, after=cursor, limit=size)
                if as_json:
                    for info in page:
                        print(json.dumps(as_dict(info)), flush=True)
                elif page:
                    _print_table(console, page, with_header=first)
                first, cursor = False, page.next
                left = None if left is None else left - len(page)
                if cursor is None:
                    return 0
        return 0

    run(command, debug=debug)


def _print_table(console: Console, page: Sequence[ConversationInfo], *, with_header: bool) -> None:
    table = Table(box=None, show_header=with_header, pad_edge=False, header_style="bold")
    table.add_column("VERSION", justify="right", min_width=7, no_wrap=True)
    table.add_column("UPDATED (UTC)", min_width=19, no_wrap=True)
    table.add_column("NAMESPACE", min_width=9, overflow="fold")
    table.add_column("ID", overflow="fold")
    table.add_column("TITLE", overflow="fold")
    for info in page:
        table.add_row(
            f"{info.version}",
            f"{info.updated_at:%Y-%m-%d %H:%M:%S}",
            Text(show_id(info.namespace), style="dim"),
            Text(show_id(info.id), style="cyan"),
            Text(show_id(info.title) if info.title else ""),
        )
    console.print(table)


def as_dict(info: ConversationInfo) -> dict[str, Any]:
    """A card as JSON."""
    return {
        "namespace": info.namespace,
        "id": info.id,
        "owner": info.owner,
        "title": info.title,
        "metadata": dict(info.metadata),
        "version": info.version,
        "created_at": info.created_at.isoformat(),
        "updated_at": info.updated_at.isoformat(),
    }
