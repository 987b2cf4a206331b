"""Options and arguments that commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Store = Annotated[
    str,
    typer.Option(envvar="DIARIST_STORE", metavar="URL", help="The store, such as sqlite:///chat.db."),
]
Namespace = Annotated[str, typer.Option(help="The conversations' namespace; the default one has no name.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error, and the library's log.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The exact id; write -- before one with a dash.")]
Window = Annotated[int, typer.Option(min=1, help="How many messages the model goes on seeing; the log keeps all.")]
