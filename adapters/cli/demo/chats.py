"""What is said in the demo: chats, each a series of exchanges."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from diarist.adapters.cli.jsonl import numbered_lines, read_chat
from diarist.adapters.models import ScriptedModel
from diarist.runtime.messages import AssistantMessage, Message, UserMessage

_TOPICS = ("the harbour", "a walk", "bread", "the night train", "chess", "rain", "an old map", "the garden", "tea")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn: what the user sends, and what model and tools say to it."""

    asked: Sequence[Message]
    said: Sequence[Message]


Chats = Callable[[int], Iterator[Exchange]]
"""The exchanges of chat number n, the same each time; they may never end."""


def invented(seed: int) -> Chats:
    """Chats without an end, made of a few words. No two messages of a chat are equal."""
    model = ScriptedModel(seed=seed)

    def chat(number: int) -> Iterator[Exchange]:
        chance = random.Random(f"{seed} {number}")
        turn = 0
        while True:
            turn += 1
            question = UserMessage(f"{number}.{turn}: tell me about {chance.choice(_TOPICS)}")
            yield Exchange([question], [AssistantMessage(model.drawn([question]))])

    return chat


def from_file(path: Path) -> Chats:
    """The chats of a JSON Lines file, over and over. `BadLine` names what is no chat."""
    with path.open("rb") as stream:
        found = [list(exchanges(chat.messages)) for chat in (read_chat(*line) for line in numbered_lines(stream))]
    talks = [chat for chat in found if chat]
    if not talks:
        raise ValueError(f"{path} has no chats")
    return lambda number: iter(talks[number % len(talks)])


def exchanges(messages: Sequence[Message]) -> Iterator[Exchange]:
    """A chat divided at its user messages; what stands before the first one is sent along with it."""
    asked: list[Message] = []
    said: list[Message] = []
    started = False
    for message in messages:
        if isinstance(message, UserMessage):
            if started:
                yield Exchange(asked, said)
                asked, said = [], []
            asked.append(message)
            started = True
        elif started:
            said.append(message)
        else:
            asked.append(message)
    if asked:
        yield Exchange(asked, said)


def is_streamed(message: Message) -> bool:
    """Whether it is an answer in plain words, which a model would stream; anything else is added whole."""
    plain = isinstance(message, AssistantMessage) and isinstance(message.content, str) and message.content
    return bool(plain) and message == AssistantMessage(message.text, id=message.id, created_at=message.created_at)
