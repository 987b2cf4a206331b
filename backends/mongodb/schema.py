"""Making and checking what a store needs: indexes, and a server that enforces what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure

from diarist.backends.mongodb.driver import Store
from diarist.runtime.errors import BackendError, SchemaError

VERSION: Final = 1

SCHEMA_ID: Final = "schema"
"""Of the document with the schema's version. The ids of records have NULs in them."""

INDEXES: Final[Mapping[str, str]] = {"begins": "begins", "keys": "keys.id", "due": "due"}
"""Names and fields. All are sparse: a record without the field costs nothing. The compare-and-set is on `_id`."""


async def prepare(store: Store) -> Mapping[str, Any]:
    """Make or check the schema; what the server says of itself (`buildInfo`)."""
    server = await store.call(lambda: store.database.command("buildInfo"))
    await _check_collection(store)
    await _check_version(store)
    await _make_indexes(store)
    return server


async def _check_collection(store: Store) -> None:
    """A collation that folds letters would make one conversation of two; a capped collection forgets."""
    for found in await _list(store, "listCollections", 1, filter={"name": store.log_name}):
        options = found.get("options", {})
        wrong = [name for name in ("collation", "capped", "timeseries", "viewOn") if options.get(name)]
        if wrong:
            raise SchemaError(
                f"the collection {store.log_name} of {store.where} was made with {', '.join(wrong)}. "
                "Rename it, and let Diarist make it anew"
            )


async def _check_version(store: Store) -> None:
    """Write the schema's version twice: the second time must fail, else nothing fences writers off here."""
    document = {"_id": SCHEMA_ID, "version": VERSION}
    await _inserted(store, document)
    if await _inserted(store, document):
        raise SchemaError(f"the store {store.where} takes the same _id twice: it can't keep conversations apart")
    found = await store.get(SCHEMA_ID, {"version": True})
    version = found.get("version") if found else None
    if version != VERSION:
        raise SchemaError(
            f"{store.where} has schema {version}, and this version of Diarist knows {VERSION}. "
            "Install the version of Diarist that wrote it, or a later one"
        )


async def _inserted(store: Store, document: Mapping[str, Any]) -> bool:
    try:
        await store.call(lambda: store.log.insert_one(dict(document)))
    except BackendError as error:
        if isinstance(error.__cause__, DuplicateKeyError):
            return False
        raise
    return True


async def _make_indexes(store: Store) -> None:
    """Make those that are missing. Who may not do that may still use a store that has them."""
    models = [IndexModel([(INDEXES[name], 1)], name=name, sparse=True) for name in await _missing(store)]
    if not models:
        return
    try:
        await store.call(lambda: store.log.create_indexes(models))
    except BackendError as error:
        missing = await _missing(store)  # nothing, if another process did it at the same moment
        if not missing:
            return
        if not isinstance(error.__cause__, OperationFailure):
            raise
        create = f"db.{store.log_name}.createIndex"
        listed = "; ".join(f"{create}({{'{INDEXES[name]}': 1}}, {{sparse: true}})" for name in missing)
        text = f"{store.where} lacks indexes that can't be made. As an administrator run {listed}"
        raise SchemaError(text) from error


async def _missing(store: Store) -> Sequence[str]:
    found = await _list(store, "listIndexes", store.log_name)
    fields = {tuple(item["key"]) for item in found if set(item["key"].values()) == {1}}
    return [name for name, field in INDEXES.items() if (field,) not in fields]


async def _list(store: Store, command: str, value: Any, **options: Any) -> Sequence[Mapping[str, Any]]:
    answer = await store.call(lambda: store.database.command(command, value, **options))
    batch: Sequence[Mapping[str, Any]] = answer["cursor"]["firstBatch"]
    return batch
