"""A record in the making: operations applied one by one to a copy of the state. Pure; nothing here waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from diarist.runtime.intake import line_of_message
from diarist.runtime.log import Entry, EntryKind, encode_record, lazy_message
from diarist.runtime.messages import Message, SystemMessage
from diarist.runtime.repository import Commit, Done, Head, StoredRecord
from diarist.runtime.results import Receipt
from diarist.runtime.state import State
from diarist.runtime.views import (
    MAX_RANGES,
    Range,
    RecordIndex,
    Run,
    ViewState,
    advanced,
    appended,
    joined,
    runs_of,
    selected,
)
from diarist.runtime.windows import MessageWindow, Window

if TYPE_CHECKING:
    from diarist.runtime.operations import Operation
    from diarist.runtime.slot import Slot

Answered = tuple["Operation[Any]", Any, BaseException | None]
"""An operation, and its answer: a value, or an error."""

TOMBSTONE_SECONDS = 86_400.0
"""How long a deleted conversation's versions go on counting, so that no stale writer can bring it back."""


class Draft:
    """What one commit will write. Answers are kept here until it is durable."""

    __slots__ = (
        "answers",
        "base",
        "commit",
        "deleted",
        "entries",
        "index",
        "keys",
        "lines",
        "new_id",
        "sequence",
        "size",
        "slot",
        "started",
        "state",
        "weight",
        "window",
    )

    def __init__(
        self, slot: Slot, state: State, index: RecordIndex, new_id: Callable[[], str], window: Window
    ) -> None:
        self.slot = slot
        self.base = state
        self.state = state.copy()
        self.index = index
        self.new_id = new_id
        self.window = window
        self.sequence = 0
        self.started = 0.0
        self.weight = slot.weight
        self.entries: list[tuple[Entry, Sequence[Run]]] = []
        self.lines: list[bytes] = []
        self.keys: dict[str, Done] = {}
        self.answers: list[Answered] = []
        self.size = 0
        self.deleted = False
        self.commit: Commit | None = None

    @property
    def position(self) -> int:
        """Where the next message of the log goes."""
        return self.state.position

    def append(self, operation: Operation[Any], kind: EntryKind, lines: Sequence[bytes], view: ViewState) -> Receipt:
        """Add an entry: `lines` go into the log, and `view` is what the conversation shows after it."""
        state = self.state
        if state.life is None and kind != "delete":
            state.life = self.new_id()
            if operation.owner is not None or state.version:
                state.note(owner=operation.owner, born=state.version + 1)
        first, count = state.position, len(lines)
        if len(view.runs) > MAX_RANGES:
            lines, view = self._anew(lines, view)
        state.version += 1
        if state.facts.upkeep:
            state.note(upkeep=0)
        state.position += len(lines)
        size = sum(map(len, lines))
        self._weigh(view, size, len(lines))
        state.view = view
        self.lines += lines
        self.size += size + 160 + 40 * len(view.runs)
        self.entries.append((Entry(operation.id, kind, len(lines), (), operation.digest), view.runs))
        receipt = Receipt(state.version, first, count)
        if operation.key is not None:
            self.keys[operation.key] = Done(state.version, first, count, operation.digest or "")
        return receipt

    def keep(self, operation: Operation[Any], kind: EntryKind, **facts: Any) -> Receipt:
        """Add an entry that changes only some facts that the runtime keeps for itself."""
        upkeep = self.state.facts.upkeep
        receipt = self.append(operation, kind, (), self.state.view)
        self.state.note(upkeep=upkeep + 1, **facts)
        return receipt

    def _weigh(self, view: ViewState, added: int, count: int) -> None:
        """What the new view weighs, taking what left it as of average weight."""
        before = len(self.state.view.messages) + count
        self.weight = (self.weight + added) * len(view.messages) // before if before else 0

    def _anew(self, lines: Sequence[bytes], view: ViewState) -> tuple[list[bytes], ViewState]:
        """A view of too many pieces: its messages go into the log once more, side by side."""
        copies = [line_of_message(message) for message in view.messages]
        start = self.state.position + len(lines)
        shown = tuple(lazy_message(line) for line in copies)
        return [*lines, *copies], ViewState(shown, ((start, start + len(copies)),))

    def add(self, operation: Operation[Any], lines: Sequence[bytes], base: ViewState | None = None) -> Receipt | None:
        """An entry of new messages behind the view (or `base`), cut by the window. None: nothing is new."""
        view = self.state.view if base is None else base
        new = [lazy_message(line) for line in lines]
        window, position = self.window, self.state.position
        messages = joined(view.messages, new)
        cut = window.cut(messages, new) if isinstance(window, MessageWindow) else None
        if cut is not None:
            return self.append(operation, "add", lines, advanced(view, messages, position, cut))
        full = appended(view, new, position)
        chosen = tuple(self.window(tuple(view.messages), new))
        if len(chosen) == len(full.messages) and all(map(is_, chosen, full.messages)):
            return self.append(operation, "add", lines, full)
        repeated = _repeated(chosen, new)
        if repeated:
            lines = [line for place, line in enumerate(lines) if place not in repeated]
            if not lines and base is None:
                return None
            new = [message for place, message in enumerate(new) if place not in repeated]
            full = appended(view, new, self.position)
        more, shown = self.place(chosen, full, len(lines))
        return self.append(operation, "add", [*lines, *more], shown)

    def place(
        self, chosen: Sequence[Message], known: ViewState, offset: int, stamp: Sequence[bytes] = ()
    ) -> tuple[list[bytes], ViewState]:
        """The view that shows `chosen`; what is not in `known` goes into the log behind `offset` new messages.

        `stamp`: the lines of those unknown messages, in their order, where they were made already.
        """
        where: dict[int, int] = {}
        if all(map({id(message) for message in known.messages}.__contains__, map(id, chosen))):
            return [], selected(known, chosen)
        for message, position in zip(known.messages, _places(known), strict=True):
            where[id(message)] = position
        lines: list[bytes] = []
        shown: list[Message] = []
        spots: list[int] = []
        for message in chosen:
            spot = where.get(id(message))
            if spot is None:
                line = stamp[len(lines)] if stamp else line_of_message(message)
                spot = self.position + offset + len(lines)
                lines.append(line)
                message = lazy_message(line)
            shown.append(message)
            spots.append(spot)
        return lines, ViewState(tuple(shown), runs_of(spots))

    def finish(self, now: float) -> Commit:
        """The commit that makes all entries durable."""
        state, base = self.state, self.base
        first = base.version + 1
        position = state.position - len(self.lines)
        index = self.index = self.index if base.life == state.life else RecordIndex()
        index.add(first, position, len(self.lines))
        ranges: Sequence[Range] = ()
        for entry, runs in self.entries:
            ranges = entry.view = index.ranges(runs)
        payload = encode_record(position, [entry for entry, _ in self.entries], self.lines)
        if base.life is None:
            state.created = now
        state.updated = now
        life = state.life or (base.life or self.new_id())
        head = Head(
            life=life,
            version=state.version,
            owner=state.facts.owner,
            created=state.created,
            updated=now,
            expires=now + TOMBSTONE_SECONDS if self.deleted else None,
            deleted=self.deleted,
            state=b"" if self.deleted else state.encode(ranges),
        )
        state.stored = life
        record = StoredRecord(first, state.version, payload, now)
        operations = [entry.operation for entry, _ in self.entries]
        self.commit = Commit(self.slot.key, base.point, record, head, self.keys, operations)
        return self.commit


def _places(view: ViewState) -> list[int]:
    return [position for low, high in view.runs for position in range(low, high)]


def _repeated(chosen: Sequence[Message], new: Sequence[Message]) -> set[int]:
    """Places of new system messages that the window left out because it shows an equal one."""
    kept = {id(message) for message in chosen}
    systems = [message for message in chosen if isinstance(message, SystemMessage)]
    return {
        place
        for place, message in enumerate(new)
        if isinstance(message, SystemMessage)
        and id(message) not in kept
        and any(message.same_content(other) for other in systems)
    }
