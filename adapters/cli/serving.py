"""`diarist serve`: the web app."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from diarist.adapters.cli.console import complain
from diarist.adapters.cli.options import Debug, Namespace, Store, Window
from diarist.adapters.cli.running import Stop, run
from diarist.adapters.cli.stores import opened
from diarist.adapters.models import ChatModel, OpenAIChatModel, ScriptedModel
from diarist.runtime.ids import check_namespace
from diarist.runtime.options import Overlap

LOCAL = ("127.0.0.1", "::1", "localhost")


def serve(
    store: Store,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8000,
    namespace: Namespace = "",
    token: Annotated[
        str | None, typer.Option(envvar="DIARIST_TOKEN", help="The bearer token that requests must bring.")
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="A file, a namespace and its token a line: each sees its own."
        ),
    ] = None,
    overlap: Annotated[
        str, typer.Option(help="A question while an answer runs: queue, reject, or interrupt.")
    ] = "queue",
    window: Window = 20,
    model: Annotated[
        str | None, typer.Option(help="A model's name at --model-url, or at OpenAI; without it the built-in one.")
    ] = None,
    model_url: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible server; its key is $OPENAI_API_KEY.")
    ] = None,
    delay: Annotated[float, typer.Option(min=0, help="Seconds between the built-in model's words.")] = 0.03,
    grace: Annotated[float, typer.Option(min=0.1, help="Seconds from SIGTERM to the exit.")] = 25.0,
    debug: Debug = False,
) -> None:
    """Serve a chat backend and its page. At SIGTERM or Ctrl-C running answers have their grace; exit code 0.

    The API is documented under /docs. Without a token whoever reaches the address sees everything.
    """
    try:
        from diarist.adapters.serve import ServeSettings, create_app
        from diarist.adapters.serve.model import answering
        from diarist.adapters.serve.server import Server, listening, url_of
    except ModuleNotFoundError as error:
        complain(f"this needs {error.name}: pip install 'diarist[serve]'")
        raise typer.Exit(2) from None
    known = _tokens(token, namespace, tokens)
    if not known and host not in LOCAL:
        complain(f"warning: {host} can be reached from outside, and no token is asked for (--token)")
    settings = ServeSettings(namespace=check_namespace(namespace), tokens=known, overlap=_overlap(overlap))

    async def command(_stop: Stop) -> int:
        async with opened(store, make=True, window=window) as memory:
            app = create_app(memory, settings, model=answering(_model(model, model_url, delay)))
            with listening(host, port) as listener:
                server = Server(app, memory, grace, lambda: print(f"serving on {url_of(listener)}", flush=True))
                await server.serve([listener])
        return 0

    run(command, debug=debug, graceful=True)


def _model(name: str | None, url: str | None, delay: float) -> ChatModel:
    if name is None and url is None:
        return ScriptedModel(delay=delay)
    if name is None:
        raise typer.BadParameter("--model-url needs a model's name too", param_hint="--model")
    return OpenAIChatModel(name, base_url=url)


_OVERLAPS: Final[dict[str, Overlap]] = {"queue": "queue", "reject": "reject", "interrupt": "interrupt"}


def _overlap(text: str) -> Overlap:
    overlap = _OVERLAPS.get(text)
    if overlap is None:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(_OVERLAPS)}", param_hint="--overlap")
    return overlap


def _tokens(token: str | None, namespace: str, file: Path | None) -> dict[str, str]:
    found = {token: namespace} if token else {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines() if file is not None else (), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or words[1] in found:
            raise typer.BadParameter(f"line {number} is no namespace and a new token", param_hint="--tokens")
        found[words[1]] = check_namespace(words[0])
    return found
