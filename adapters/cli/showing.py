"""`diarist show`: one conversation, to read."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from diarist.adapters.cli.console import complain, safe, show_id, stdout
from diarist.adapters.cli.exporting import PAGE
from diarist.adapters.cli.listing import as_dict
from diarist.adapters.cli.options import Debug, Id, Json, Namespace, Store
from diarist.adapters.cli.running import Stop, run
from diarist.adapters.cli.stores import opened
from diarist.runtime.conversation import Conversation
from diarist.runtime.messages import AssistantMessage, Message, ToolMessage
from diarist.runtime.parts import FilePart, ImagePart, TextPart
from diarist.runtime.results import ConversationInfo

STYLES = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}


def show(
    id: Id,
    store: Store,
    namespace: Namespace = "",
    log: Annotated[bool, typer.Option("--log", help="The whole log, also what left the view.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show a conversation: its card and what the model sees. Exit code 1 if it is not there.

    With --log, positions in the log stand before the messages, and what the model does not see any more is marked.
    Control characters in texts are written as escapes; --json and `export` give the exact text.
    """

    async def command(_stop: Stop) -> int:
        async with opened(store) as memory:
            chat = memory.conversation(id, namespace=namespace)
            info = await chat.info()
            if info is None:
                complain(f"there is no conversation {show_id(id)}")
                return 1
            if as_json:
                messages = await _as_dicts(chat, log)
                print(json.dumps({**as_dict(info), "messages": messages}), flush=True)
                return 0
            console = stdout()
            _print_card(console, info)
            if log:
                await _print_log(console, chat)
            else:
                for message in await chat.get():
                    print_message(console, message)
        return 0

    run(command, debug=debug)


async def _as_dicts(chat: Conversation, log: bool) -> list[dict[str, Any]]:
    if not log:
        return [message.to_dict() for message in await chat.get()]
    found: list[dict[str, Any]] = []
    position: int | None = None
    while True:
        page = await chat.history(after=position, limit=PAGE)
        for item in page:
            place = {"version": item.version, "position": item.position, "in_view": item.in_view}
            found.append({**place, "message": item.message.to_dict()})
        position = page.next
        if position is None:
            return found


async def _print_log(console: Console, chat: Conversation) -> None:
    position: int | None = None
    while True:
        page = await chat.history(after=position, limit=PAGE)
        for item in page:
            print_message(console, item.message, f"#{item.position}{'' if item.in_view else ', out of view'}")
        position = page.next
        if position is None:
            return


def _print_card(console: Console, info: ConversationInfo) -> None:
    line = Text(show_id(info.id), style="bold")
    if info.namespace:
        line.append(f" in {show_id(info.namespace)}", style="dim")
    if info.title:
        line.append(f"  {safe(info.title)}")
    console.print(line)
    owner = f", owner {show_id(info.owner)}" if info.owner else ""
    times = f"created {info.created_at:%Y-%m-%d %H:%M:%S}, updated {info.updated_at:%Y-%m-%d %H:%M:%S} UTC"
    console.print(Text(f"version {info.version}, {times}{owner}", style="dim"))
    if info.metadata:
        console.print(Text(safe(json.dumps(dict(info.metadata))), style="dim"))


def print_message(console: Console, message: Message, place: str = "") -> None:
    """A message with its role, and its parts, tool calls and status readable."""
    head = Text(message.role, style=f"bold {STYLES.get(message.role, '')}")
    notes = [place] if place else []
    if message.name:
        notes.append(safe(message.name))
    if isinstance(message, ToolMessage) and message.tool_call_id:
        notes.append(f"result of {safe(message.tool_call_id)}")
    if isinstance(message, AssistantMessage) and message.status not in (None, "complete"):
        notes.append(f"{message.status}")
    if notes:
        head.append(f" ({', '.join(notes)})", style="dim not bold")
    console.print()
    console.print(head)
    console.print(_body(message))


def _body(message: Message) -> Text:
    body = Text()
    if isinstance(message, AssistantMessage) and message.reasoning:
        body.append(safe(message.reasoning) + "\n", style="dim italic")
    content = message.content
    if isinstance(content, tuple):
        body.append("\n".join(_part(part) for part in content))
    else:
        body.append(safe(content or ""))
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            body.append("\n" if body else "")
            body.append(f"→ {safe(call.name or '')}({safe(call.arguments or '')})", style="yellow")
            body.append(f"  {safe(call.id or '')}", style="dim")
        if message.refusal:
            body.append(f"\nrefused: {safe(message.refusal)}", style="red")
    return body


def _part(part: object) -> str:
    if isinstance(part, TextPart):
        return safe(part.text)
    if isinstance(part, ImagePart):
        return f"[image {safe(part.url[:80])}]"
    if isinstance(part, FilePart):
        return f"[file {safe(part.filename or part.file_id or '')}]"
    return f"[{type(part).__name__}]"
