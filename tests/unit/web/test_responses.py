"""Turns as responses: what goes over the wire, and what a client that hangs up leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from diarist import ChatMemory, FellBehindError, Turn, UserMessage
from diarist.adapters.asgi import (
    AttachmentResponse,
    EventWire,
    UIWire,
    exception_handlers,
    lifespan,
    memory_of,
    raw_response,
    responses,
    sse_response,
    text_response,
    ui_response,
)
from diarist.adapters.asgi.fastapi import Memory
from tests.support.asgi import Call, events, text_of
from tests.support.turns import FULL, HeldStore, Stream, forever, lines, settle, stored, until

TOKENS = ["Bread, ", "then ", "a walk."]
OPENAI: list[Any] = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


class Site:
    """An app with one endpoint, whose turns run as a test says."""

    def __init__(self, store: HeldStore) -> None:
        self.store = store
        self.respond: Callable[..., Response] = sse_response
        self.stream: Callable[[], Any] = lambda: Stream(*TOKENS)
        self.options: dict[str, Any] = {}
        self.turn_options: dict[str, Any] = {}
        self.app = Starlette(
            routes=[Route("/chat/{id}", self.talk, methods=["POST"]), Route("/chat/{id}", self.follow)],
            exception_handlers=exception_handlers,
            lifespan=lifespan(lambda: ChatMemory(store)),
        )

    async def talk(self, request: Request) -> Response:
        chat = memory_of(request).conversation(request.path_params["id"])
        return self.respond(
            chat.turn(UserMessage((await request.body()).decode()), **self.turn_options),
            self.model,
            **self.options,
        )

    def model(self, _turn: Turn) -> Any:
        return self.stream()

    async def follow(self, request: Request) -> Response:
        wire = UIWire() if "ui" in request.query_params else EventWire()
        return AttachmentResponse(memory_of(request).conversation(request.path_params["id"]).attach(), wire)

    @property
    def memory(self) -> ChatMemory:
        memory = self.app.state.diarist
        assert isinstance(memory, ChatMemory)
        return memory

    def ask(self, text: str = "q") -> Call:
        return Call(self.app, "POST", "/chat/c", body=text.encode())

    def attach(self, query: str = "") -> Call:
        return Call(self.app, "GET", f"/chat/c{query}")

    async def kept(self) -> list[str]:
        return await stored(self.memory.conversation("c"))


@asynccontextmanager
async def site() -> AsyncGenerator[Site, None]:
    one = Site(HeldStore())
    async with one.app.router.lifespan_context(one.app):
        yield one


async def test_events() -> None:
    """Text as it grows, and the version when all is stored."""
    async with site() as s:
        call = await s.ask().end()
        assert (call.status, call.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert call.headers["x-accel-buffering"] == "no"
        told = events(call.body)
        assert [data for name, data in told if name == "message"] == [{"text": token} for token in TOKENS]
        assert (told[0][0], told[-1][0]) == ("start", "done")
        assert told[-1][1] == {
            "version": 1,
            "count": 2,
            "replayed": False,
            "id": (await s.memory.get("c"))[-1].id,
            "status": "complete",
        }
        assert await s.kept() == ["u:q", "a:Bread, then a walk."]


async def test_the_last_event_comes_when_the_answer_can_be_read() -> None:
    """A slow store holds no token, only the end."""
    async with site() as s:
        s.store.hold()
        call = s.ask()
        await call.until("walk")
        await s.store.reached.wait()
        await settle()
        assert "done" not in call.body.decode()
        s.store.free.set()
        await call.until("done")
        assert await s.kept() == ["u:q", "a:Bread, then a walk."]
        await call.end()


async def test_text() -> None:
    async with site() as s:
        s.respond = text_response
        call = await s.ask().end()
        assert call.body == b"Bread, then a walk."
        assert call.headers["content-type"] == "text/plain; charset=utf-8"


async def test_the_ui_message_stream() -> None:
    async with site() as s:
        s.respond, s.stream = ui_response, lambda: Stream(*OPENAI)
        s.options = {"message_id": "m1", "format": "openai_chat"}
        call = await s.ask().end()
        assert call.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert [data for _, data in events(call.body)] == [
            {"type": "start", "messageId": "m1"},
            {"type": "start-step"},
            {"type": "text-start", "id": "text-0"},
            {"type": "text-delta", "id": "text-0", "delta": "Hi"},
            {"type": "text-end", "id": "text-0"},
            {"type": "finish-step"},
            {"type": "finish", "finishReason": "stop"},
            "[DONE]",
        ]


async def test_raw_bytes_pass_untouched() -> None:
    body = (
        b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in OPENAI) + b"data: [DONE]\r\n\r\n"
    )
    async with site() as s:
        s.respond, s.stream = (
            raw_response,
            lambda: Stream(*(body[place : place + 7] for place in range(0, len(body), 7))),
        )
        assert (await s.ask().end()).body == body
        assert await s.kept() == ["u:q", "a:Hi"]


async def test_a_model_that_is_awaited() -> None:
    """As the SDKs' `create`."""

    async def create() -> Stream:
        await asyncio.sleep(0)
        return Stream("a")

    async with site() as s:
        s.stream = create
        assert text_of((await s.ask().end()).body) == "a"


@pytest.mark.parametrize("respond", [sse_response, ui_response, text_response])
@pytest.mark.parametrize(
    ("keep", "expected"),
    [("keep_partial", ["u:q", "a:Bre (cancelled)"]), ("keep_user", ["u:q"]), ("discard", [])],
)
async def test_a_client_that_hangs_up_cancels_the_turn(respond: Any, keep: str, expected: list[str]) -> None:
    async with site() as s:
        stream = Stream("Bre", forever)
        s.respond, s.stream, s.turn_options = respond, lambda: stream, {"on_cancel": keep}
        call = s.ask()
        await call.until("Bre")
        call.hang_up()
        await call.end()
        assert await s.kept() == expected
        assert (stream.closed, s.memory.stats().turns, s.memory.stats().failures) == (1, 0, 0)


@pytest.mark.parametrize("respond", [sse_response, ui_response, text_response])
async def test_a_detached_turn_goes_on_and_is_followed(respond: Any) -> None:
    """A reload in the middle: from the beginning, then live."""
    async with site() as s:
        go = asyncio.Event()
        s.respond, s.stream, s.options = respond, lambda: Stream("a", go.wait, "b"), {"detach": True}
        call = s.ask()
        await call.until("a")
        call.hang_up()
        await call.end()
        again, ui = s.attach(), s.attach("?ui")
        await again.until('"a"')
        await ui.until('"a"')
        go.set()
        assert text_of((await again.end()).body) == "ab"
        assert events((await ui.end()).body)[-1][1] == "[DONE]"
        assert events(again.body)[-1][1]["version"] == 1
        assert await s.kept() == ["u:q", "a:ab"]


async def test_nothing_to_follow_is_204() -> None:
    async with site() as s:
        call = await s.attach().end()
        assert (call.status, call.body) == (204, b"")


async def test_a_follower_waits_for_a_turn_whose_model_is_not_there_yet() -> None:
    async with site() as s:
        go = asyncio.Event()

        async def create() -> Stream:
            await go.wait()
            return Stream("a")

        s.stream, s.options = create, {"detach": True}
        call = s.ask()
        await settle()
        follower = s.attach()
        await settle()
        assert follower.status == 0
        go.set()
        assert text_of((await call.end()).body) == text_of((await follower.end()).body) == "a"


async def test_a_follower_that_hangs_up_is_gone() -> None:
    async with site() as s:
        s.stream, s.options = lambda: Stream("a", forever), {"detach": True}
        call = s.ask()
        await call.until("a")
        follower = s.attach()
        await follower.until("a")
        assert s.memory.stats().attached == 2
        follower.hang_up()
        await follower.end()
        assert s.memory.stats().attached == 1
        await s.memory.conversation("c").interrupt()
        await call.end()
        assert events(call.body)[-1] == (
            "error",
            {"error": "TurnInterruptedError", "detail": "the turn was interrupted", "outcome": "executed"},
        )


async def test_before_the_first_byte_an_error_has_a_status() -> None:
    async with site() as s:
        s.stream, s.turn_options = lambda: Stream("a", forever), {"overlap": "reject"}
        call = s.ask()
        await call.until("a")
        refused = await s.ask().end()
        assert (refused.status, refused.json()["error"]) == (409, "TurnRejectedError")
        call.hang_up()
        await call.end()
        invalid = await Call(s.app, "POST", "/chat/ ", body=b"q").end()
        assert invalid.status == 422
        s.turn_options = {"expected_version": 7}
        assert (await s.ask().end()).status == 409


async def test_a_model_that_refuses_is_an_error_of_the_request() -> None:
    """The question is kept, as `on_error` says."""

    async def create() -> Stream:
        raise PermissionError("wrong key")

    async with site() as s:
        s.stream = create
        call = s.ask()
        with pytest.raises(PermissionError):
            await call.end()
        assert call.status == 500
        assert await s.kept() == ["u:q"]


async def test_an_error_in_the_middle() -> None:
    """Events tell it, without the model's words; text breaks off."""
    async with site() as s:
        s.stream = lambda: Stream("a", OSError("secret host is down"))
        call = await s.ask().end()
        assert events(call.body)[-1] == (
            "error",
            {"error": "ModelError", "detail": "the answer could not be finished"},
        )
        s.respond = ui_response
        told = [data for _, data in events((await s.ask().end()).body)]
        assert told[-2:] == [{"type": "error", "errorText": "the answer could not be finished"}, "[DONE]"]
        s.respond = text_response
        call = s.ask()
        with pytest.raises(OSError, match="secret"):
            await call.end()
        assert not call.whole
        assert await s.kept() == ["u:q", "a:a (error)"] * 3


@pytest.mark.parametrize("detach", [False, True])
async def test_a_commit_that_fails_is_told(detach: bool) -> None:
    async with site() as s:
        s.options = {"detach": detach}
        s.store.outcomes.append(FULL)
        call = await s.ask().end()
        name, told = events(call.body)[-1]
        assert (name, told["error"], told["outcome"]) == ("error", "BackendError", "not_executed")
        assert "disk" not in told["detail"]
        assert await s.kept() == []


@pytest.mark.parametrize("respond", [sse_response, ui_response, text_response, raw_response])
async def test_a_repeated_key_replays_the_answer(respond: Any) -> None:
    """The model is asked once."""
    asked = 0

    def stream() -> Stream:
        nonlocal asked
        asked += 1
        return Stream(b'{"choices":[{"delta":{"content":"Hello"}}]}') if respond is raw_response else Stream("Hello")

    async with site() as s:
        s.respond, s.stream, s.turn_options = respond, stream, {"idempotency_key": "k"}
        if respond is raw_response:
            s.options = {"encoding": "ndjson"}
        first, second = await s.ask().end(), await s.ask().end()
        assert asked == 1
        assert b"Hello" in first.body
        assert b"Hello" in second.body
        assert await s.kept() == ["u:q", "a:Hello"] or respond is raw_response


async def test_silence_is_filled_with_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies end connections on which nothing comes."""
    monkeypatch.setattr(responses, "PING_SECONDS", 0.001)
    async with site() as s:
        go = asyncio.Event()
        s.stream = lambda: Stream("a", go.wait, "b")
        call = s.ask()
        await call.until(": ping\n\n: ping")
        go.set()
        assert text_of((await call.end()).body) == "ab"
        assert call.whole


async def test_a_client_that_fell_behind_is_told() -> None:
    async def fail() -> None:
        raise FellBehindError("read the history")

    async with site() as s:
        s.stream = lambda: Stream("a", fail)
        assert events((await s.ask().end()).body)[-1][1]["error"] == "FellBehindError"


async def test_the_dependency_of_fastapi() -> None:
    app = FastAPI(lifespan=lifespan("memory://"), exception_handlers=exception_handlers)

    @app.post("/chat/{id}", response_model=None)
    async def talk(id: str, memory: Memory) -> Response:  # pyright: ignore[reportUnusedFunction]
        return sse_response(memory.conversation(id).turn(UserMessage("q")), lambda turn: Stream("a"))

    async with app.router.lifespan_context(app):
        call = await Call(app, "POST", "/chat/c").end()
        assert text_of(call.body) == "a"
        assert lines(await app.state.diarist.get("c")) == ["u:q", "a:a"]


async def test_an_app_without_a_memory_says_so() -> None:
    async def ask(request: Request) -> Response:
        with pytest.raises(RuntimeError, match="lifespan"):
            memory_of(request)
        return Response()

    await Call(Starlette(routes=[Route("/", ask)]), "GET", "/").end()


async def test_the_lifespan_drains() -> None:
    """A turn that runs when the app ends is finished first."""
    async with site() as s:
        go = asyncio.Event()
        s.stream, s.options = lambda: Stream("a", go.wait, "b"), {"detach": True}
        call = s.ask()
        await call.until("a")
        memory = s.memory
        asyncio.get_running_loop().call_later(0.01, go.set)
    await call.end()
    assert text_of(call.body) == "ab"
    assert memory.stats().turns == 0
    refused = await s.ask().end()
    assert (refused.status, refused.headers["retry-after"]) == (503, "5")


async def test_many_clients_come_and_go() -> None:
    """Half of them hang up at once: every question is stored, whole or cancelled, and nothing is left."""
    async with site() as s:
        calls: list[Call] = []
        for number in range(100):
            s.stream = lambda: Stream("a", lambda: asyncio.sleep(0), "b")
            calls.append(Call(s.app, "POST", f"/chat/{number}", body=b"q"))
        for call in calls[::2]:
            call.hang_up()
        await asyncio.gather(*(call.task for call in calls))
        await until(lambda: s.memory.stats().turns == 0)
        for number in range(1, 100, 2):
            assert await stored(s.memory.conversation(f"{number}")) == ["u:q", "a:ab"]
        assert s.memory.stats().failures == 0
