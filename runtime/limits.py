"""Every bound of the runtime, on by default."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds. Counts are of operations, slots or loads; sizes are bytes; times are seconds.

    `mailbox`: admitted operations of one conversation. `operations`, `bytes`: the same over the process.
    `live`, `live_bytes`: conversations in memory, and what their messages weigh; the least recently used go
    first. `loads`: reads of cold conversations at once. `message_bytes`: one message, encoded. `timeout`: of an
    operation, where the call gives none. `idle_seconds`: a slot that nobody used that long goes.
    `turn_seconds`: the age at which a turn is ended by its policy. `lease_seconds`: how long a turn of
    `serialize="store"` outlives its process; it is renewed at a third of that. `confirm_seconds`: a slot that was not
    confirmed for so long is compared with the store before it writes. `conflicts`: how often an operation is
    applied again after others were faster. `overflow`: at a bound, `wait` for room or `raise` `MailboxFullError`.
    `detached`: turns that run detached at once, `attached`: clients that follow them; above, `MailboxFullError`.
    `feed_bytes`: what their chunks kept for replay weigh; above, the longest loses its beginning.
    """

    mailbox: int = 1024
    live: int = 10_000
    live_bytes: int = 256 * MIB
    loads: int = 64
    operations: int = 20_000
    bytes: int = 64 * MIB
    message_bytes: int = 4 * MIB
    timeout: float = 30.0
    idle_seconds: float = 300.0
    turn_seconds: float = 600.0
    lease_seconds: float = 15.0
    confirm_seconds: float = 60.0
    conflicts: int = 64
    detached: int = 1024
    attached: int = 10_000
    feed_bytes: int = 256 * MIB
    overflow: Literal["wait", "raise"] = "wait"

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "overflow":
                if value not in ("wait", "raise"):
                    raise ValueError(f"overflow: {value!r} is neither 'wait' nor 'raise'")
            elif not value > 0:
                raise ValueError(f"{item.name}: {value!r} is not above 0")
