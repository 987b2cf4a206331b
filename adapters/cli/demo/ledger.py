"""What clients were told, beside what is read back: the judge of both ways to keep a chat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from diarist.adapters.cli.demo.chats import Exchange
from diarist.runtime.messages import AssistantMessage, Message, ToolMessage

Print = tuple[object, ...]


def fingerprint(message: Message) -> Print:
    """What makes two messages the same one here: who said what, with which calls."""
    calls = [(c.id, c.name, c.arguments) for c in message.tool_calls] if isinstance(message, AssistantMessage) else []
    answers = message.tool_call_id if isinstance(message, ToolMessage) else None
    return (message.role, message.parts, *calls, answers)


@dataclass(slots=True)
class Noted:
    """An exchange whose turn came. `acknowledged`: the client was told that it is stored."""

    exchange: Exchange
    acknowledged: bool = False

    @property
    def messages(self) -> list[Message]:
        return [*self.exchange.asked, *self.exchange.said]


@dataclass(slots=True)
class Ledger:
    """Per conversation, the exchanges in the order in which their turns came."""

    notes: dict[str, list[Noted]] = field(default_factory=dict[str, list[Noted]])

    def begin(self, id: str, exchange: Exchange) -> Noted:
        noted = Noted(exchange)
        self.notes.setdefault(id, []).append(noted)
        return noted


@dataclass(slots=True)
class Verdict:
    """Messages, added up over conversations. `unordered` counts conversations.

    `unpromised`: stored, but the client was never told so, which is allowed. `doubled`: stored more often than said.
    """

    chats: int = 0
    acknowledged: int = 0
    found: int = 0
    lost: int = 0
    doubled: int = 0
    unpromised: int = 0
    unordered: int = 0

    @property
    def clean(self) -> bool:
        """Acknowledged = stored, each once, in order."""
        return not (self.lost or self.doubled or self.unordered)

    def judge(self, notes: Sequence[Noted], stored: Iterable[Message]) -> None:
        """Compare one conversation with its notes."""
        promised = [fingerprint(m) for noted in notes if noted.acknowledged for m in noted.messages]
        others = Counter(fingerprint(m) for noted in notes if not noted.acknowledged for m in noted.messages)
        there = [fingerprint(message) for message in stored]
        missing, extra = Counter(promised), Counter(there)
        missing.subtract(there)
        extra.subtract(promised)
        lost, more = +missing, +extra
        unpromised = more & others
        self.chats += 1
        self.acknowledged += len(promised)
        self.lost += lost.total()
        self.found += len(promised) - lost.total()
        self.unpromised += unpromised.total()
        self.doubled += (more - unpromised).total()
        self.unordered += _without(promised, lost) != _without(there, more)


def _without(prints: Sequence[Print], gone: Counter[Print]) -> list[Print]:
    left = Counter(gone)
    kept: list[Print] = []
    for item in prints:
        if left[item] > 0:
            left[item] -= 1
        else:
            kept.append(item)
    return kept
