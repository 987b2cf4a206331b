"""The commands, put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from diarist.adapters.cli import chatting, deleting, doctor, exporting, listing, loading, serving, showing
from diarist.adapters.cli.demo import command as demo

app = typer.Typer(
    name="diarist",
    help="Diarist keeps conversations: nothing acknowledged is lost.\n\n"
    "A store is a URL: sqlite:///relative.db or sqlite:////absolute.db; $DIARIST_STORE stands in for --store.\n\n"
    "Exit codes: 0 done; 1 failed, not found, or a bad line; 2 wrong usage; 130 or 143 after Ctrl-C or SIGTERM.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # texts of users end up in usage errors: they are no markup
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"diarist {version('diarist')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Options before the command."""


app.command("demo")(demo.demo)
app.command("load")(loading.load)
app.command("export")(exporting.export)
app.command("list")(listing.list_conversations)
app.command("show")(showing.show)
app.command("delete")(deleting.delete)
app.command("chat")(chatting.chat)
app.command("serve")(serving.serve)
app.command("doctor")(doctor.doctor)
