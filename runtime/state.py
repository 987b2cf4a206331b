"""The state of one conversation as its actor holds it, and as it is stored in the head."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from diarist.runtime.codec import decode, encode
from diarist.runtime.errors import BackendError
from diarist.runtime.log import Record, decode_record, flat, unflat
from diarist.runtime.messages import Message
from diarist.runtime.repository import Head, Point, Snapshot
from diarist.runtime.upkeep import Lease, Purged
from diarist.runtime.values import EMPTY
from diarist.runtime.views import EMPTY_VIEW, Range, RecordIndex, Run, ViewState


class Facts(NamedTuple):
    """What most conversations leave at its usual value: one object for all of those.

    `rewound`, `cleared`: versions of the last rewind and of the last clear, so that a running turn can tell. `born`:
    the version that began this life; what is older belongs to a conversation that was deleted.
    """

    owner: str | None = None
    title: str | None = None
    metadata: Mapping[str, Any] = EMPTY
    rewound: int = 0
    cleared: int = 0
    born: int = 1
    upkeep: int = 0
    """Entries at the end of the log that only the runtime has use for: users see no change in them."""
    lease: Lease | None = None
    purged: Purged | None = None


USUAL: Final = Facts()


@dataclass(slots=True)
class State:
    """Everything that decides what an operation does.

    `life` None: the conversation does not exist (never did, or was deleted). `stored`: the life that the head in the
    store has; a tombstone has one too, and its versions go on. `position`: where the next message goes.
    """

    stored: str | None = None
    life: str | None = None
    version: int = 0
    position: int = 0
    view: ViewState = EMPTY_VIEW
    created: float = 0.0
    updated: float = 0.0
    facts: Facts = USUAL

    @property
    def point(self) -> Point | None:
        """Where the conversation stands; None if there is no head, not even a tombstone."""
        return None if self.stored is None else (self.stored, self.version)

    @property
    def exists(self) -> bool:
        return self.life is not None

    @property
    def changed(self) -> int:
        """The version of the last entry that users see anything of."""
        return self.version - self.facts.upkeep

    @property
    def is_untouched(self) -> bool:
        """Whether nobody ever wrote into it: it does not exist, or has nothing but the lease of a first turn."""
        return self.life is None or self.changed < self.facts.born

    def copy(self) -> State:
        """A copy to work on; all values in it are immutable."""
        return State(
            self.stored,
            self.life,
            self.version,
            self.position,
            self.view,
            self.created,
            self.updated,
            self.facts,
        )

    def note(self, **facts: Any) -> None:
        """Set some of the facts."""
        noted = self.facts._replace(**facts)
        self.facts = USUAL if noted == USUAL else noted

    def encode(self, ranges: Sequence[Range]) -> bytes:
        """The opaque part of the head; what has its usual value is left out."""
        data: dict[str, Any] = {"v": flat(ranges), "n": self.position}
        facts = self.facts
        if facts is not USUAL:
            if facts.rewound:
                data["rewound"] = facts.rewound
            if facts.cleared:
                data["cleared"] = facts.cleared
            if facts.born > 1:
                data["born"] = facts.born
            if facts.title is not None:
                data["title"] = facts.title
            if facts.metadata:
                data["metadata"] = facts.metadata
            if facts.upkeep:
                data["upkeep"] = facts.upkeep
            if facts.lease is not None:
                data["lease"] = list(facts.lease)
            if facts.purged is not None:
                data["purged"] = facts.purged.flat()
        return encode(data)


def view_ranges(state: bytes) -> list[Range]:
    """The records that a stored state shows: what a repository reads along with the head."""
    data: Any = decode(state) if state else {}
    try:
        return unflat(data.get("v", ()))
    except (AttributeError, TypeError) as error:
        raise BackendError("the view of a conversation is damaged", outcome="not_executed") from error


def decode_head(head: Head) -> State:
    """The state without its view. A tombstone is a conversation that does not exist, at a version that does."""
    if head.deleted:
        return State(stored=head.life, version=head.version)
    data = decode(head.state)
    try:
        facts = Facts(
            owner=head.owner,
            title=data.get("title"),
            metadata=data.get("metadata", EMPTY),
            rewound=data.get("rewound", 0),
            cleared=data.get("cleared", 0),
            born=data.get("born", 1),
            upkeep=data.get("upkeep", 0),
            lease=Lease(*data["lease"]) if "lease" in data else None,
            purged=Purged.read(data["purged"]) if "purged" in data else None,
        )
        return State(
            stored=head.life,
            life=head.life,
            version=head.version,
            position=data["n"],
            created=head.created,
            updated=head.updated,
            facts=USUAL if facts == USUAL else facts,
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BackendError("the head of a conversation is damaged", outcome="not_executed") from error


def weight_of(snapshot: Snapshot | None) -> int:
    """Bytes of the messages in view, roughly: their records may have more than these."""
    return sum(len(item.payload) for item in snapshot.records) if snapshot is not None else 0


def restore(snapshot: Snapshot | None) -> tuple[State, RecordIndex]:
    """State and index out of what `Repository.load` returned."""
    index = RecordIndex()
    if snapshot is None or snapshot.head.deleted:
        return (State() if snapshot is None else decode_head(snapshot.head)), index
    state = decode_head(snapshot.head)
    records = [decode_record(item.first, item.payload, item.at) for item in snapshot.records]
    for record in records:
        index.add(record.first, record.position, record.count)
    state.view = view_of(view_ranges(snapshot.head.state), records)
    return state, index


def view_of(ranges: Sequence[Range], records: Sequence[Record]) -> ViewState:
    """The view that the ranges show of the records (ascending by first version)."""
    firsts = [record.first for record in records]
    messages: list[Message] = []
    runs: list[Run] = []
    for part in ranges:
        inside = records[bisect_left(firsts, part.first) : bisect_right(firsts, part.last)]
        full = [record for record in inside if record.count]
        if not full or any(record.erased for record in full):
            raise BackendError(f"records {part.first} to {part.last} are in view, but gone", outcome="not_executed")
        shown = [message for record in full for message in record.messages]
        low, high = full[0].position + part.skip, full[-1].position + full[-1].count - part.drop
        messages += shown[part.skip : len(shown) - part.drop]
        if runs and runs[-1][1] == low:
            runs[-1] = (runs[-1][0], high)
        else:
            runs.append((low, high))
    return ViewState(tuple(messages), tuple(runs)) if messages else EMPTY_VIEW
