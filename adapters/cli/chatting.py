"""`diarist chat`: talk to a model in the terminal."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from types import FrameType
from typing import Annotated

import typer

from diarist.adapters.chat import ChatRequest
from diarist.adapters.cli.console import safe, show_id, stdout
from diarist.adapters.cli.options import Debug, Namespace, Window
from diarist.adapters.cli.running import complain_about, set_up
from diarist.adapters.cli.showing import print_message
from diarist.adapters.cli.stores import opened
from diarist.adapters.models import ChatModel, ScriptedModel
from diarist.runtime.conversation import Conversation
from diarist.runtime.errors import DiaristError
from diarist.runtime.messages import UserMessage

RECALLED = 6
"""Messages of a conversation that goes on which are shown at the start."""


def chat(
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="One to go on with, or a new one's.")] = None,
    store: Annotated[
        str, typer.Option(envvar="DIARIST_STORE", metavar="URL", help="The store; memory:// keeps nothing.")
    ] = "memory://",
    namespace: Namespace = "",
    window: Window = 20,
    debug: Debug = False,
) -> None:
    """Talk to a model, here to the built-in one, which answers from a script.

    Ctrl-C during an answer stops it and keeps what came; Ctrl-D, or Ctrl-C at the prompt, leaves.
    """
    name = id or f"chat-{secrets.token_hex(4)}"
    # One run of the loop per answer: while the prompt waits, nothing has to go on, and no thread is needed.
    with set_up(debug), asyncio.Runner() as runner:
        code = _converse(runner, name, store, namespace, window, debug)
    raise typer.Exit(code)


def _converse(runner: asyncio.Runner, id: str, store: str, namespace: str, window: int, debug: bool) -> int:
    if sys.stdin.isatty():
        with suppress(ImportError):
            import_module("readline")  # from then on, lines can be edited and recalled
    stack = AsyncExitStack()
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        memory = runner.run(stack.enter_async_context(opened(store, make=True, window=window)))
        talk = Talk(memory.conversation(id, namespace=namespace))
        runner.run(talk.begin(kept=not store.startswith("memory:")))
        while (asked := _ask()) is not None:
            try:
                if asked.strip():
                    runner.run(talk.answer(asked))
            except KeyboardInterrupt:
                print("\n(stopped; what came is kept)", flush=True)
    except (DiaristError, OSError) as error:
        if debug:
            raise
        complain_about(error)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        runner.run(stack.aclose())
        signal.signal(signal.SIGTERM, before)
    return 0


def _terminated(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _ask() -> str | None:
    """The user's next line; None when there is no more."""
    try:
        return input("\n> ")
    except (EOFError, KeyboardInterrupt):
        print()
        return None


class Talk:
    """One conversation on a terminal."""

    def __init__(self, conversation: Conversation, model: ChatModel | None = None) -> None:
        self._conversation = conversation
        self._model: ChatModel = model or ScriptedModel()

    async def begin(self, *, kept: bool) -> None:
        """Say where we are, and what was said last."""
        name = show_id(self._conversation.id)
        print(f"conversation {name}" + ("" if kept else ", kept only until you leave (--store URL keeps it)"))
        for message in (await self._conversation.get())[-RECALLED:]:
            print_message(stdout(), message)

    async def answer(self, asked: str) -> None:
        """One turn, printed as it comes. A cancelled one keeps what came."""
        async with self._conversation.turn(UserMessage(asked)) as turn:
            async for chunk in turn.record(self._model.stream(ChatRequest(turn.messages))):
                print(safe(chunk.text), end="", flush=True)
        print(flush=True)
