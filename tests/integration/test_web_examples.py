"""The web examples, each started by its line in the README, on a free port."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from websockets.asyncio.client import connect

from tests.integration.test_examples import LINES, ROOT
from tests.support.asgi import events, text_of
from tests.support.serving import client_of
from tests.support.sse_server import Answer, model_server


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@asynccontextmanager
async def running(name: str, folder: Path, upstream: str = "") -> AsyncGenerator[int, None]:
    """The example of that name; yields its port. It ends at SIGTERM, with nothing to complain about."""
    [line] = [line for line in LINES if name in line]
    port = free_port()
    line = re.sub(r"--port \d+", f"--port {port}", line).replace("http://localhost:8000/v1", upstream)
    path, *arguments = shlex.split(line)
    command = [sys.executable, "-W", "error", str(ROOT / path), *arguments]
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        seen = b""
        while b"running on" not in seen:
            seen += await process.stderr.readline()
            assert not process.stderr.at_eof(), seen
        yield port
        process.send_signal(signal.SIGTERM)
        rest = await process.stderr.read()
        assert b"Traceback" not in rest, rest.decode()
        assert await process.wait() in (0, -signal.SIGTERM)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_fastapi_app(tmp_path: Path) -> None:
    async with running("fastapi_app", tmp_path) as port, client_of(f"http://127.0.0.1:{port}") as client:
        told = await client.http.post("/chat/ann", json={"text": "Hello"})
        assert events(told.content)[-1][1]["status"] == "complete"
        history = (await client.http.get("/chat/ann")).json()
        assert [message["role"] for message in history] == ["user", "assistant"]
        assert history[1]["content"] == text_of(told.content)
        assert (await client.http.post("/chat/ann/stop")).json() is False


async def test_the_websocket_app(tmp_path: Path) -> None:
    """An answer, a stopped one, and one whose socket closes in its middle."""
    async with running("websocket_app", tmp_path) as port:
        address = f"ws://127.0.0.1:{port}/chat/ann"
        async with connect(address, proxy=None) as socket:
            await socket.send("Hello")
            frames = [str(await socket.recv(decode=True))]
            while not frames[-1].startswith("{"):
                frames.append(str(await socket.recv(decode=True)))
            assert json.loads(frames.pop()) == {"end": "complete", "version": 1}
            assert "Hello" in "".join(frames)
            await socket.send("Go on and on")
            await socket.recv()
            await socket.send("/stop")
            while not (last := str(await socket.recv(decode=True))).startswith("{"):
                pass
            assert json.loads(last) == {"end": "stopped"}
        async with connect(address, proxy=None) as socket:
            await socket.send("Again")
            await socket.recv()
    stored = await asyncio.to_thread(exported, tmp_path)
    assert [message.get("status") for message in stored if message["role"] == "assistant"] == [
        "complete",
        "cancelled",
        "cancelled",
    ]


def exported(folder: Path) -> list[dict[str, str]]:
    command = [sys.executable, "-m", "diarist", "export", "--store", f"sqlite:///{folder}/chat.db"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True, cwd=ROOT)
    messages: list[dict[str, str]] = json.loads(done.stdout)["messages"]
    return messages


def chunk(text: str) -> dict[str, object]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]}


async def test_the_proxy(tmp_path: Path) -> None:
    """The second request's history comes from the proxy; a refusal of the upstream reaches the client."""
    async with (
        model_server() as server,
        running("proxy", tmp_path, f"{server.url}/v1") as port,
        client_of(f"http://127.0.0.1:{port}") as client,
    ):
        path, headers = "/v1/chat/completions", {"x-conversation": "ann"}
        for question, answer in (("Hello", "Hi!"), ("And?", "Well.")):
            server.answers.append(Answer(events=[chunk(answer[:2]), chunk(answer[2:]), "[DONE]"]))
            body = {"model": "any", "messages": [{"role": "user", "content": question}]}
            got = await client.http.post(path, json=body, headers=headers)
            assert got.text.endswith("data: [DONE]\n\n")
            assert json.loads(got.text.partition("data: ")[2].partition("\n")[0]) == chunk(answer[:2])
        asked = server.requests[-1]
        assert [message["content"] for message in asked["messages"]] == ["Hello", "Hi!", "And?"]
        assert asked["stream"] is True
        server.answers.append(Answer(body={"error": "no credit"}, status=402))
        refused = await client.http.post(path, json=body, headers=headers)
        assert refused.status_code == 402
        assert "no credit" in refused.text
        assert (await client.http.post(path, json=body)).status_code == 400
    stored = await asyncio.to_thread(exported, tmp_path)
    assert [message["content"] for message in stored] == ["Hello", "Hi!", "And?", "Well.", "And?"]
