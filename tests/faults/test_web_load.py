"""Hundreds of clients on one server, half of which vanish; and SIGTERM in the middle of that."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.asgi import text_of
from tests.support.cli import finish
from tests.support.serving import Client, client_of, command, serving

pytestmark = [
    pytest.mark.skipif("DIARIST_WEB_LOAD" not in os.environ, reason="minutes of load: DIARIST_WEB_LOAD=1 runs it"),
    pytest.mark.skipif(os.name != "posix", reason="signals to a process are POSIX's"),
    pytest.mark.timeout(300),
]

CLIENTS = 500


async def ask(url: str, id: str, *, vanish: bool, chance: random.Random) -> str:
    """Ask over a connection of one's own. Returns the body, so far as it was read."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    body = json.dumps({"text": f"question {id}"}).encode()
    head = f"POST /api/conversations/{id}/messages HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
    seen = b""
    try:
        while not vanish or seen.count(b"\ndata: ") < chance.randrange(1, 20):
            data = await reader.read(65536)
            if not data:
                break
            seen += data
        if vanish and chance.random() < 0.5:
            writer.transport.abort()
    finally:
        writer.close()
    return seen.decode("utf-8", "replace")


def answer_in(body: str) -> str:
    """The text of an answer in a chunked HTTP body."""
    _, _, chunked = body.partition("\r\n\r\n")
    plain = re.sub(r"(?:^|\r\n)[0-9a-f]+\r\n", "", chunked)
    return text_of(plain.rstrip().encode())


async def gauges(client: Client) -> dict[str, float]:
    text = (await client.http.get("/metrics")).text
    return {name: float(value) for name, value in re.findall(r"^(diarist_\w+) (\S+)$", text, re.MULTILINE)}


async def quiet(client: Client) -> dict[str, float]:
    """The server's counters once no turn runs and nobody follows one."""
    while True:
        found = await gauges(client)
        if not found["diarist_running_turns"] + found["diarist_attached_clients"] + found["diarist_detached_turns"]:
            return found
        await asyncio.sleep(0.05)


def resident(process_id: int) -> int:
    """Bytes of a process in memory; 0 where that can't be told."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text()
    except OSError:
        return 0
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


def by_id(objects: list[Any]) -> dict[str, list[dict[str, Any]]]:
    return {chat["id"]: chat["messages"] for chat in objects}


async def test_half_of_500_clients_vanish_and_nothing_is_lost(tmp_path: Path) -> None:
    """Every answer is stored whole, also of those who left; three waves later the memory is where it was."""
    sizes: list[int] = []
    ids: list[str] = []
    bodies: list[str] = []
    with serving(tmp_path / "chat.db", "--delay", "0.02") as server:
        async with client_of(server.url) as client:
            for wave in range(3):
                chance = random.Random(wave)
                ids = [f"{wave}-{number}" for number in range(CLIENTS)]
                bodies = await asyncio.gather(
                    *(ask(server.url, id, vanish=place % 2 == 0, chance=chance) for place, id in enumerate(ids))
                )
                found = await quiet(client)
                assert found["diarist_failures_total"] == 0
                sizes.append(resident(server.process.pid))
                for body in bodies[1::2]:
                    assert "event: done" in body
        done = await asyncio.to_thread(server.stop)
        assert (done.code, done.err) == (0, "")
    stored = by_id((await command("export", "--store", f"sqlite:///{tmp_path}/chat.db")).objects)
    assert len(stored) == 3 * CLIENTS
    for id, messages in stored.items():
        assert [message["role"] for message in messages] == ["user", "assistant"]
        assert messages[0]["content"] == f"question {id}"
        assert messages[1]["status"] == "complete"
    for id, body in zip(ids, bodies, strict=True):
        told = answer_in(body) if "event: done" in body else ""
        assert stored[id][1]["content"].startswith(told)
        assert not told or told == stored[id][1]["content"]
    # The first wave warms caches up (500 conversations stay live); from then on it must be flat.
    assert sizes[2] - sizes[1] < 24 << 20, sizes


async def test_sigterm_under_load(tmp_path: Path) -> None:
    """Running answers have their grace, then their policy; what was said to be stored is; exit code 0 in time."""
    with serving(tmp_path / "chat.db", "--delay", "0.15", "--grace", "5") as server:
        ids = [f"{number}" for number in range(200)]
        chance = random.Random(7)
        async with client_of(server.url) as client:
            tasks = [
                asyncio.create_task(ask(server.url, id, vanish=place % 2 == 0, chance=chance))
                for place, id in enumerate(ids)
            ]
            while (await gauges(client))["diarist_detached_turns"] < len(ids) / 2:  # noqa: ASYNC110 -- see below
                await asyncio.sleep(0.02)  # another process: it tells its state only when it is asked
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        done = await asyncio.to_thread(finish, server.process)
        seconds = time.monotonic() - begun
    assert (done.code, done.err) == (0, "")
    assert seconds < 5 + 5, seconds
    stored = by_id((await command("export", "--store", f"sqlite:///{tmp_path}/chat.db")).objects)
    for messages in stored.values():
        assert [message["role"] for message in messages] in (["user"], ["user", "assistant"])
        assert messages[-1].get("status", "complete") in ("complete", "cancelled")
    finished = 0
    for id, body in zip(ids, results, strict=True):
        if isinstance(body, str) and "event: done" in body:
            finished += 1
            assert stored[id][1]["content"] == answer_in(body)
            assert stored[id][1]["status"] == "complete"
        elif isinstance(body, str) and "event: start" in body:
            assert id in stored
    assert sum(len(messages) == 2 for messages in stored.values()) >= len(stored) / 2
