"""The slot of one live conversation: its actor's state and mailbox. A passive object; the engine drives it."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from diarist.runtime.ids import Key
from diarist.runtime.operations import Operation, Status
from diarist.runtime.repository import Done
from diarist.runtime.results import View
from diarist.runtime.state import State
from diarist.runtime.views import RecordIndex

if TYPE_CHECKING:
    from diarist.runtime.turns import TurnQueue

KNOWN_KEYS = 64
"""Callers' keys that a slot remembers as done, to answer an early retry without asking the store."""


class Phase(IntEnum):
    """What the slot is doing. One thing at a time: that is what serialises the conversation."""

    IDLE = 0
    READY = 1
    """In the queue for the next batch."""
    BUSY = 2
    """Loading, looking something up, or waiting before another try."""
    FLYING = 3
    """Its record is being committed, or the outcome of that is being settled."""


class Slot:
    """State and mailbox of a live conversation. What is not needed while idle is None."""

    __slots__ = (
        "attempts",
        "checked",
        "checked_at",
        "index",
        "key",
        "keys",
        "mail",
        "pending",
        "phase",
        "state",
        "turns",
        "used",
        "view",
        "waiting",
        "weight",
    )

    def __init__(self, key: Key) -> None:
        self.key = key
        self.state: State | None = None
        self.index: RecordIndex | None = None
        self.view: View | None = None
        self.mail: deque[Operation[Any]] | None = None
        self.waiting: deque[Operation[Any]] | None = None
        self.keys: dict[str, Done] | None = None
        self.turns: TurnQueue | None = None
        self.phase = Phase.IDLE
        self.pending = 0
        """Admitted operations that are not finished."""
        self.attempts = 0
        self.checked = 0
        """The number of the last submission that the state was compared with the store after."""
        self.checked_at = 0.0
        """When that was, in monotonic seconds."""
        self.used = 0.0
        self.weight = 0
        """Bytes of the messages in view."""

    @property
    def idle(self) -> bool:
        """Whether the slot can go: no mail, no work under way, no turn."""
        return self.phase is Phase.IDLE and not self.mail and not self.waiting and self.turns is None

    def tidy(self) -> None:
        """Drop mail whose caller gave up, once that is most of it: a store that hangs for an hour must not fill
        the memory with what timed out."""
        mail = self.mail
        if mail is not None and len(mail) > 64 + 2 * self.pending:
            left = [operation for operation in mail if operation.status is not Status.DONE]
            mail.clear()
            mail.extend(left)

    def forget(self) -> None:
        """Drop what is cached, and what was looked up for the mail; the next operation loads it again.

        Others may have written: a key that was not done may be done now, and one whose conversation is gone is not.
        """
        self.state = None
        self.index = None
        self.view = None
        self.keys = None
        for operation in self.mail or ():
            if operation.status is Status.QUEUED:
                operation.reset()

    def remember(self, keys: dict[str, Done]) -> None:
        """Keep callers' keys that were just done."""
        if not keys:
            return
        known = self.keys = self.keys if self.keys is not None else {}
        known.update(keys)
        while len(known) > KNOWN_KEYS:
            del known[next(iter(known))]
