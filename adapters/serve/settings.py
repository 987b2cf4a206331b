"""What the web app is told at its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from diarist.runtime.options import Overlap

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """`tokens`: bearer tokens and the namespace that each sees; none: no token is asked for, all see `namespace`.

    `overlap`: what a question does while an answer runs, unless the request says it. `body_bytes`: the largest body
    of a request, in bytes. `ready_seconds`: how long the store may take to answer a readiness check.
    """

    namespace: str = ""
    tokens: Mapping[str, str] = field(default_factory=dict[str, str])
    overlap: Overlap = "queue"
    body_bytes: int = MIB
    ready_seconds: float = 2.0
