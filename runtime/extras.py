"""Keys that Diarist has no field for: where they stand in a dict, so that they never pass for a field of ours.

They stand beside our own keys, as they came. One that would be read as ours goes under the key `extras`; and so
does a key `extras` that would be read as such a hiding place. `take` undoes what `put` did, for any extras, and
`put` what `take` did, for any dict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from diarist.runtime.values import is_mapping, thaw

Owns = Callable[[str, Any], bool]
"""Whether `key: value` beside our own keys would be read as ours, or replace one of ours."""


def put(extras: Mapping[str, Any], out: dict[str, Any], owns: Owns) -> None:
    """Write extras into `out`, which holds our own keys already."""
    hidden = {key: thaw(value) for key, value in extras.items() if key != "extras" and owns(key, value)}
    loose = {key: thaw(value) for key, value in extras.items() if key != "extras" and key not in hidden}
    out.update(loose)
    if "extras" in extras:
        inner = thaw(extras["extras"])
        if hidden or _hides(inner, loose, owns):
            hidden["extras"] = inner
        else:
            out["extras"] = inner
    if hidden:
        out["extras"] = hidden


def take(rest: Mapping[str, Any], owns: Owns) -> Mapping[str, Any]:
    """The extras, out of the keys that are not ours."""
    if "extras" not in rest:
        return rest
    inner = rest["extras"]
    loose = {key: value for key, value in rest.items() if key != "extras"}
    return {**loose, **inner} if _hides(inner, loose, owns) else rest


def _hides(value: Any, loose: Mapping[str, Any], owns: Owns) -> bool:
    """Whether `value` is what `put` would have written under `extras`."""
    if not is_mapping(value):
        return False
    names = [key for key in value if key != "extras"]
    if not names:
        return "extras" in value and _hides(value["extras"], loose, owns)
    return all(key not in loose and owns(key, value[key]) for key in names)
