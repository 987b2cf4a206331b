"""Conversations: create, list, read, rename, rewind, clear, delete."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, status

from diarist.adapters.asgi.fastapi import Memory
from diarist.adapters.serve.access import Chat, Namespace
from diarist.adapters.serve.schemas import Card, Cards, Done, History, NewConversation, Rename, Rewind
from diarist.runtime.conversation import Conversation
from diarist.runtime.errors import ConflictError

router = APIRouter(prefix="/api/conversations", tags=["conversations"])
Limit = Annotated[int, Query(ge=1, le=200)]
NEWEST = 1 << 53
"""A position above all others."""


async def card_of(chat: Conversation) -> Card:
    """The card; 404 if the conversation does not exist."""
    info = await chat.info()
    if info is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such conversation")
    return Card.of(info)


@router.post("", status_code=status.HTTP_201_CREATED, summary="Create a conversation")
async def create(body: NewConversation, memory: Memory, namespace: Namespace) -> Card:
    chat = memory.conversation(body.id or f"c-{secrets.token_urlsafe(12)}", namespace=namespace)
    try:
        await chat.describe(title=body.title, expected_version=0)
    except ConflictError as error:
        raise HTTPException(status.HTTP_409_CONFLICT, "the conversation exists already") from error
    return await card_of(chat)


@router.get("", summary="List conversations")
async def listed(memory: Memory, namespace: Namespace, after: str | None = None, limit: Limit = 50) -> Cards:
    return Cards.of(await memory.conversations(namespace=namespace, after=after, limit=limit))


@router.get("/{id:path}/messages", summary="A page of the history")
async def history(
    chat: Chat,
    after: Annotated[int | None, Query(ge=-1, description="Forwards from this position.")] = None,
    before: Annotated[int | None, Query(ge=0, description="Backwards from this position.")] = None,
    limit: Limit = 50,
) -> History:
    """The newest messages, unless `after` or `before` says otherwise. Items are ascending in any case."""
    await card_of(chat)
    if after is not None:
        return History.of(await chat.history(after=after, limit=limit))
    return History.of(await chat.history(before=NEWEST if before is None else before, limit=limit))


@router.post("/{id:path}/rewind", summary="Show the view of an earlier time")
async def rewind(chat: Chat, body: Rewind) -> Done:
    """To edit a question: rewind before it, then send the new one."""
    return Done.of(await chat.rewind(body.version, before=body.before, after=body.after))


@router.post("/{id:path}/clear", summary="Empty the view; the log is kept")
async def clear(chat: Chat) -> Done:
    await card_of(chat)
    return Done.of(await chat.clear())


@router.get("/{id:path}", summary="A conversation's card")
async def card(chat: Chat) -> Card:
    return await card_of(chat)


@router.patch("/{id:path}", summary="Rename a conversation")
async def rename(chat: Chat, body: Rename) -> Card:
    await card_of(chat)
    await chat.describe(title=body.title)
    return await card_of(chat)


@router.delete("/{id:path}", status_code=status.HTTP_204_NO_CONTENT, summary="Erase a conversation")
async def delete(chat: Chat) -> None:
    """Its log included, at once and for good. A running answer ends, and is not stored."""
    await card_of(chat)
    await chat.interrupt()
    await chat.delete()
