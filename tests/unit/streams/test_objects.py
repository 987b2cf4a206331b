"""Chunks as SDKs hand them over: objects of many makes, read like the JSON that was sent."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model

from diarist.adapters.streaming import chunks
from tests.unit.streams.cases import (
    ALL,
    Case,
    aggregated,
    differences,
    is_array,
    is_object,
    load,
    message_of,
    name_of,
)


class Model(BaseModel):
    """As OpenAI's and Anthropic's SDKs have them: built without validation, unknown fields kept."""

    model_config = ConfigDict(extra="allow")


def model_of(value: Any) -> Any:
    if is_object(value):
        return Model.model_construct(**{key: model_of(item) for key, item in value.items()})
    return [model_of(item) for item in value] if is_array(value) else value


def namespace_of(value: Any) -> Any:
    if is_object(value):
        return SimpleNamespace(**{key: namespace_of(item) for key, item in value.items()})
    return tuple(namespace_of(item) for item in value) if is_array(value) else value


def snake_of(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def aliased_of(value: Any) -> Any:
    """As Google's SDK has them: snake_case attributes, camelCase in JSON, every field there is, unset ones None."""
    if not is_object(value):
        return [aliased_of(item) for item in value] if is_array(value) else value
    names = {snake_of(key): key for key in value}
    fields: Any = {name: (Any, Field(default=None, alias=key)) for name, key in names.items()}
    made = create_model("Made", **fields, never_sent=(Any, Field(default=None, alias="neverSent")))
    return made(**{key: item if key == "args" else aliased_of(item) for key, item in value.items()})


def without_nulls(expect: dict[str, Any]) -> dict[str, Any]:
    """A namespace can't tell a null that was sent from an attribute's default."""
    error = expect["error"] and {key: value for key, value in expect["error"].items() if value is not None}
    return {**expect, "error": error}


def assert_reads_like_json(case: Case, objects: list[Any], expect: dict[str, Any]) -> None:
    aggregate = aggregated("auto", objects)
    if "sse_done" in case["rules"]:
        aggregate.add("[DONE]")
    message = aggregate.message(cancelled=case["ends"] == "cancelled")
    assert differences(expect, message) == {}
    assert message.status == case["ends"]


@pytest.mark.parametrize("case", ALL, ids=name_of)
def test_models_read_like_json(case: Case) -> None:
    """All vectors, as pydantic models."""
    assert_reads_like_json(case, [model_of(chunk) for chunk in case["chunks"]], case["expect"])


@pytest.mark.parametrize("case", ALL, ids=name_of)
def test_namespaces_read_like_json(case: Case) -> None:
    """All vectors, as objects with attributes."""
    assert_reads_like_json(case, [namespace_of(chunk) for chunk in case["chunks"]], without_nulls(case["expect"]))


@pytest.mark.parametrize("case", load("gemini"), ids=name_of)
def test_aliased_models_read_like_json(case: Case) -> None:
    """Google's vectors, as models that name each field twice."""
    assert_reads_like_json(case, [aliased_of(chunk) for chunk in case["chunks"]], case["expect"])


class Reason(str, Enum):  # noqa: UP042  (SDKs derive from both, as Python 3.10 and older want it)
    STOP = "STOP"


class Number(IntEnum):
    STOP = 1


class Unset:
    """Mistral's mark of a field that was not sent."""


@dataclass(slots=True)
class Delta:
    content: Any = None
    tool_calls: Any = field(default_factory=Unset)


@dataclass
class Choice:
    delta: Delta
    index: int = 0
    finish_reason: Any = None
    extra: Any = None


@dataclass
class Chunk:
    choices: list[Choice]
    id: str = "c"


class Wrapper:
    """As Vertex AI's SDK: nothing in public, but it knows its JSON."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def to_dict(self) -> dict[str, Any]:
        return self._data


def test_dataclasses_with_and_without_slots() -> None:
    """Marks of unset fields are null, enums are their words."""
    message = message_of("auto", Chunk([Choice(Delta("A"), extra=Unset())]), Chunk([Choice(Delta(), 0, Reason.STOP)]))
    assert (message.text, message.finish_reason, message.response_id) == ("A", "STOP", "c")
    assert message.extras == {}
    assert message_of("openai_chat", Chunk([Choice(Delta(), 0, Number.STOP)])).finish_reason == "STOP"


def test_wrappers_that_only_know_their_json() -> None:
    chunk = {"candidates": [{"content": {"parts": [{"text": "A"}]}, "finish_reason": Number.STOP}]}
    assert message_of("auto", Wrapper(chunk)).text == "A"


class Descriptor(SimpleNamespace):
    pass


class Struct:
    """A generated message class, as far as it is read: Struct, Value and ListValue in one."""

    DESCRIPTOR: Any = None

    def __init__(self, kind: str, **attributes: Any) -> None:
        descriptor = Descriptor(full_name=f"google.protobuf.{kind}")
        self.__dict__.update(attributes, DESCRIPTOR=descriptor)

    def ListFields(self) -> list[Any]:
        return []

    def WhichOneof(self, _name: str) -> str | None:
        return next((key for key in self.__dict__ if key.endswith("_value")), None)


class Proto:
    """A generated message: fields by descriptor, only those that are set."""

    DESCRIPTOR = Descriptor(full_name="google.ai.Content")

    def __init__(self, *fields: tuple[str, Any, Any]) -> None:
        self._fields = fields

    def ListFields(self) -> list[Any]:
        return [
            (Descriptor(json_name=name, type=14 if enum else 9, enum_type=enum), item)
            for name, item, enum in self._fields
        ]


class ProtoPlus:
    """proto-plus wraps a message."""

    def __init__(self, inner: Proto) -> None:
        self._pb = inner


def test_protobuf_messages() -> None:
    """JSON names, enums by name, Struct as JSON with whole numbers whole, bytes in base64."""
    reasons = Descriptor(values_by_number={1: Descriptor(name="STOP")})
    numbers = Struct("ListValue", values=[Struct("Value", number_value=2.0), Struct("Value", null_value=0)])
    arguments = Struct(
        "Struct", fields={"port": Struct("Value", string_value="Elba"), "n": Struct("Value", list_value=numbers)}
    )
    call = Proto(("name", "f", None), ("args", arguments, None))
    parts = [Proto(("text", "A", None)), Proto(("functionCall", call, None), ("thoughtSignature", b"s", None))]
    content = Proto(("content", Proto(("parts", parts, None)), None), ("finishReason", 1, reasons))
    chunk = Proto(("candidates", [content], None), ("usageMetadata", Proto(("promptTokenCount", 3, None)), None))
    for made in (chunk, ProtoPlus(chunk)):
        message = message_of("auto", made)
        assert (message.text, message.finish_reason, message.usage) == ("A", "STOP", {"promptTokenCount": 3})
        assert message.tool_calls[0].arguments == '{"port":"Elba","n":[2,null]}'
        assert message.tool_calls[0].extras == {"thoughtSignature": base64.b64encode(b"s").decode()}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (b"RED", "UkVE"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (Decimal("1.5"), "1.5"),
        (Number.STOP, "STOP"),
        ((1, {2: Reason.STOP}), [1, {"2": "STOP"}]),
        (Model.model_construct(a=None, b=1), {"a": None, "b": 1}),
        (object(), {}),
        (len, None),
        (1j, None),
        (10**30, 10**30),
    ],
)
def test_what_is_kept_is_json(value: Any, kept: Any) -> None:
    """Whatever a field holds, the message can be stored."""
    assert chunks.plain(value) == kept


def test_types_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that makes a class per request doesn't fill the memory."""
    monkeypatch.setattr(chunks, "MAX_TYPES", 10)
    for number in range(50):
        made = type(f"Made{number}", (SimpleNamespace,), {})
        assert chunks.fields(made(a=1)) == {"a": 1}
        assert len(chunks._readers) <= 500  # pyright: ignore[reportPrivateUsage]
