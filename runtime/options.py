"""The keyword options that calls share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from diarist.runtime.ids import check_id

Overlap = Literal["queue", "reject", "interrupt"]
CommitMode = Literal["turn", "eager", "round"]
Keep = Literal["keep_partial", "keep_user", "discard"]
OnConflict = Literal["append", "raise"]
Serialize = Literal["process", "store"]
Encoding = Literal["sse", "ndjson"]


class CallOptions(TypedDict, total=False):
    """Of all that change something. `timeout` in seconds; `Limits.timeout` where it is not given."""

    idempotency_key: str | None
    expected_version: int | None
    timeout: float | None


class TurnOptions(CallOptions, total=False):
    """Of a turn."""

    overlap: Overlap
    commit: CommitMode
    on_cancel: Keep
    on_error: Keep
    on_conflict: OnConflict
    serialize: Serialize


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """What a turn was asked to be."""

    overlap: Overlap = "queue"
    commit: CommitMode = "turn"
    on_cancel: Keep = "keep_partial"
    on_error: Keep = "keep_partial"
    on_conflict: OnConflict = "append"
    serialize: Serialize = "process"
    idempotency_key: str | None = None
    expected_version: int | None = None
    timeout: float | None = None


_CHOICES = {
    "overlap": get_args(Overlap),
    "commit": get_args(CommitMode),
    "on_cancel": get_args(Keep),
    "on_error": get_args(Keep),
    "on_conflict": get_args(OnConflict),
    "serialize": get_args(Serialize),
}


def turn_settings(options: TurnOptions) -> TurnSettings:
    """Checked settings; `ValueError` names a value that is none of the choices, `TypeError` an unknown option."""
    for name, choices in _CHOICES.items():
        value = options.get(name, choices[0])
        if value not in choices:
            raise ValueError(f"{name}: {value!r} is none of {', '.join(choices)}")
    key = options.get("idempotency_key")
    if key is not None:
        check_id(key, "idempotency key")
    return TurnSettings(**options)
