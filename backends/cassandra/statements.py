"""The CQL files, read once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Final


def _named(name: str) -> Mapping[str, str]:
    """The statements of a file by name, without comments."""
    text = files("diarist.backends.cassandra").joinpath(name).read_text("utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    bare = (re.sub(r"(^|\s+)--.*", "", part).strip().removesuffix(";") for part in parts[2::2])
    return dict(zip(parts[1::2], bare, strict=True))


QUERIES: Final = _named("queries.cql")
SCHEMA: Final = _named("schema.cql")


def quoted(keyspace: str) -> str:
    """A keyspace's name as it stands in a statement."""
    return '"' + keyspace.replace('"', '""') + '"'


def query_texts(keyspace: str) -> Mapping[str, str]:
    """All queries on the tables of a keyspace."""
    tables = {name: f"{quoted(keyspace)}.{name}" for name in ("conversation", "due")}
    return {name: text.format(**tables) for name, text in QUERIES.items()}
