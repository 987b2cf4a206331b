"""JSON to bytes and back: orjson, and the standard library for what orjson can't carry."""

from __future__ import annotations

import json
from typing import Any

import orjson

from diarist.runtime.errors import BackendError

# orjson would serialise these in forms of its own; with the flags it reports them, and `values.check` names them.
_STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS

WIDE = b" "
"""Leading white space, legal JSON, that marks a text with values that only the standard library reads back:
lone surrogates (orjson refuses them) and integers past 64 bits (orjson reads them as floats)."""


def encode(value: Any) -> bytes:
    """Compact JSON on one line; pure ASCII behind `WIDE` where orjson can't carry a value."""
    try:
        return orjson.dumps(value, option=_STRICT)
    except TypeError:
        text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        return WIDE + text.encode("ascii")


def decode(data: bytes) -> Any:
    """The inverse of `encode`. A stored text that is no JSON is a `BackendError`: the store was damaged."""
    try:
        return json.loads(data) if data.startswith(WIDE) else orjson.loads(data)
    except ValueError as error:
        raise BackendError(f"a stored value is no JSON: {error}", outcome="not_executed") from error
