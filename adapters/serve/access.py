"""Who asks, and what they may see."""

from __future__ import annotations

from secrets import compare_digest
from typing import Annotated

from fastapi import Depends, HTTPException, Request, status
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from diarist.adapters.asgi import memory_of
from diarist.adapters.serve.settings import ServeSettings
from diarist.runtime.conversation import Conversation

_bearer = HTTPBearer(auto_error=False, description="A token of the server's operator, if it has any.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def settings_of(request: Request) -> ServeSettings:
    """The app's settings."""
    settings = request.app.state.settings
    assert isinstance(settings, ServeSettings)
    return settings


Settings = Annotated[ServeSettings, Depends(settings_of)]


async def namespace_of(settings: Settings, credentials: Credentials) -> str:
    """The namespace that the request's token may see; 401 without a right one.

    All tokens are compared, in constant time each: the answer's time tells nothing of them.
    """
    if not settings.tokens:
        return settings.namespace
    given = credentials.credentials.encode() if credentials is not None else b""
    found = [namespace for token, namespace in settings.tokens.items() if compare_digest(token.encode(), given)]
    if not found:
        raise HTTPException(status.HTTP_401_UNAUTHORIZED, "a bearer token is needed", {"www-authenticate": "Bearer"})
    return found[0]


Namespace = Annotated[str, Depends(namespace_of)]


async def conversation_of(request: Request, id: str, namespace: Namespace) -> Conversation:
    """The conversation that the path names, in the namespace of who asks."""
    return memory_of(request).conversation(id, namespace=namespace)


Chat = Annotated[Conversation, Depends(conversation_of)]
