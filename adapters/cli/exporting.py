"""`diarist export`: chats from a store, in the format that `load` reads."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Annotated

import typer

from diarist.adapters.cli.console import complain, show_id
from diarist.adapters.cli.jsonl import write_chat
from diarist.adapters.cli.options import Debug, Store
from diarist.adapters.cli.running import Stop, run
from diarist.adapters.cli.stores import opened
from diarist.runtime.conversation import Conversation
from diarist.runtime.memory import ChatMemory
from diarist.runtime.messages import Message
from diarist.runtime.results import ConversationInfo

PAGE = 1000


def export(
    store: Store,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Only these; without any, all.")] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Only this one. Without it, ids are of the default one, and all means all.")
    ] = None,
    view: Annotated[bool, typer.Option("--view", help="What the model sees, not the whole log.")] = False,
    full: Annotated[bool, typer.Option("--full", help="With the ids and times that Diarist gave.")] = False,
    debug: Debug = False,
) -> None:
    """Write chats to stdout, one JSON object a line: {"id": ..., "messages": [...]}, in the OpenAI chat format.

    The order is that of the listing (by namespace and id, as bytes), or of the ids given. `load` of what comes out,
    into another store, and `export` again gives the same. Exit code 1 if an id is not there.
    """

    async def command(_stop: Stop) -> int:
        missing = 0
        async with opened(store) as memory:
            cards = _asked(memory, ids, namespace or "") if ids else everything(memory, namespace)
            async for id, card in cards:
                if card is None:
                    missing += 1
                    complain(f"there is no conversation {show_id(id)}")
                    continue
                chat = memory.conversation(card.id, namespace=card.namespace)
                messages = await chat.get() if view else [message async for message in log_of(chat)]
                sys.stdout.buffer.write(write_chat(card, messages, full=full))
                sys.stdout.buffer.flush()
        return 1 if missing else 0

    run(command, debug=debug)


async def _asked(
    memory: ChatMemory, ids: list[str], namespace: str
) -> AsyncIterator[tuple[str, ConversationInfo | None]]:
    for id in ids:
        yield id, await memory.conversation(id, namespace=namespace).info()


async def everything(memory: ChatMemory, namespace: str | None) -> AsyncIterator[tuple[str, ConversationInfo | None]]:
    """All conversations, page by page."""
    cursor: str | None = None
    while True:
        page = await memory.conversations(namespace=namespace, after=cursor, limit=PAGE)
        for card in page:
            yield card.id, card
        cursor = page.next
        if cursor is None:
            return


async def log_of(chat: Conversation) -> AsyncIterator[Message]:
    """All messages of a conversation, also those that left the view."""
    position: int | None = None
    while True:
        page = await chat.history(after=position, limit=PAGE)
        for item in page:
            yield item.message
        position = page.next
        if position is None:
            return
