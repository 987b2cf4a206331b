"""Questions and answers. Each answer is a detached turn: it goes on whoever leaves, and can be followed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Query, Request, Response, status

from diarist.adapters.asgi import AttachmentResponse, EventWire, Model, TurnResponse
from diarist.adapters.serve.access import Chat, Settings
from diarist.adapters.serve.conversations import card_of
from diarist.adapters.serve.schemas import Interrupted, Problem, Question
from diarist.runtime.conversation import Conversation
from diarist.runtime.messages import UserMessage
from diarist.runtime.options import Overlap
from diarist.runtime.turn import Turn

router = APIRouter(prefix="/api/conversations", tags=["answers"])

Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description="Repeat a request with its key, and the model is asked once."),
]
Overlaps = Annotated[Overlap | None, Query(description="While an answer runs: wait, be refused (409), or end it.")]
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
        "description": "Events: `start`; `{text}` or `{reasoning}` as it grows; `done` with version, id and status "
        "of the stored answer, or `error`. Leaving stops nothing.",
    },
    409: {"model": Problem, "description": "Another answer is running."},
}


def model_of(request: Request) -> Model:
    """The app's model."""
    model: Model = request.app.state.model
    return model


def answer(
    chat: Conversation, request: Request, *messages: UserMessage, overlap: Overlap, key: str | None
) -> Response:
    """A turn whose question is stored first, so that a reload shows it."""
    turn = chat.turn(*messages, overlap=overlap, idempotency_key=key, commit="eager")
    return TurnResponse(turn, model_of(request), EventWire(), detach=True)


def is_repeated(turn: Turn | None, key: str | None, text: str) -> bool:
    """Whether a running turn is that of the same request: a double click."""
    if turn is None or key is None or turn.settings.idempotency_key != key or not turn.started:
        return False
    asked = [message for message in turn.messages if isinstance(message, UserMessage)]
    return bool(asked) and asked[-1].text == text


@router.post("/{id:path}/messages", response_class=Response, responses=STREAM, summary="Ask, and get the answer")
async def ask(
    chat: Chat, body: Question, request: Request, settings: Settings, key: Key = None, overlap: Overlaps = None
) -> Response:
    """The conversation is made if it does not exist. A repeated request follows the running answer, or gets the
    stored one."""
    running = chat.attach()
    if is_repeated(running.turn, key, body.text):
        return AttachmentResponse(running, EventWire())
    running.leave()
    return answer(chat, request, UserMessage(body.text), overlap=overlap or settings.overlap, key=key)


@router.post("/{id:path}/regenerate", response_class=Response, responses=STREAM, summary="Another answer")
async def regenerate(chat: Chat, request: Request, key: Key = None, overlap: Overlaps = None) -> Response:
    """To the last question in view. 409 while an answer runs, unless `overlap` is `interrupt`; 404: no question.

    The old answer stays in the history, out of view.
    """
    await card_of(chat)
    running = chat.attach()
    running.leave()
    if running.turn is not None:
        if overlap != "interrupt":
            raise HTTPException(status.HTTP_409_CONFLICT, "an answer is running")
        await chat.interrupt()
    questions = [message for message in await chat.get() if isinstance(message, UserMessage)]
    if not questions:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no question in view")
    await chat.rewind(after=questions[-1].id)
    return answer(chat, request, overlap="reject", key=key)


@router.get(
    "/{id:path}/stream",
    response_class=Response,
    responses={**STREAM, 204: {"description": "No answer is running in this process."}},
    summary="Follow the running answer",
)
async def follow(chat: Chat) -> Response:
    """From its beginning, then live: after a reload, or in another tab."""
    return AttachmentResponse(chat.attach(), EventWire())


@router.post("/{id:path}/interrupt", summary="Stop the running answer")
async def interrupt(chat: Chat) -> Interrupted:
    """What came so far is kept; it is stored when this returns."""
    return Interrupted(interrupted=await chat.interrupt())
