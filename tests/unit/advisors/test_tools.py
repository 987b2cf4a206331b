"""Tools: schemas, arguments, results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from diarist import ToolCall
from diarist.adapters import Tool, ToolContext, tool


class Place(BaseModel):
    city: str
    country: str = "IT"


async def weather(
    place: Place, unit: Literal["C", "F"] = "C", days: Annotated[int, Field(ge=1, description="Days ahead")] = 1
) -> dict[str, Any]:
    """The weather at a place."""
    return {"city": place.city, "unit": unit, "days": days}


async def run(tool: Tool, arguments: str) -> str:
    return await tool.run(ToolContext({"who": "ann"}, ToolCall("1", tool.name, arguments)))


def test_the_schema_comes_from_the_function() -> None:
    """Name, docstring, types, defaults and constraints."""
    spec = Tool(weather).spec["function"]
    assert (spec["name"], spec["description"]) == ("weather", "The weather at a place.")
    schema = spec["parameters"]
    assert schema["required"] == ["place"]
    assert schema["properties"]["unit"] == {"enum": ["C", "F"], "type": "string", "default": "C"}
    assert schema["properties"]["days"]["description"] == "Days ahead"
    assert schema["additionalProperties"] is False
    assert set(schema["$defs"]) == {"Place"}


async def test_arguments_are_validated_and_typed() -> None:
    """The function gets what its annotations say."""
    assert await run(Tool(weather), '{"place": {"city": "Rome"}, "days": 2}') == '{"city":"Rome","unit":"C","days":2}'


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "place: Field required"),
        ("[]", "no JSON object"),
        ('{"place": {"ci', "no valid JSON"),
        ('{"place": {"city": "Rome"}, "days": 0}', "days: Input should be greater than or equal to 1"),
        ('{"place": {"city": "Rome"}, "dayz": 1}', "dayz: Extra inputs are not permitted"),
    ],
)
async def test_arguments_that_do_not_fit(arguments: str, told: str) -> None:
    """The error says what a model can mend."""
    with pytest.raises(ValueError, match=told):
        await run(Tool(weather), arguments)


async def test_any_parameter_name() -> None:
    """Also those that pydantic's models keep for themselves."""

    @tool
    async def odd(schema: str, copy: int, _id: str = "x", model_config: str = "m") -> list[Any]:
        return [schema, copy, _id, model_config]

    assert sorted(odd.parameters["properties"]) == ["_id", "copy", "model_config", "schema"]
    assert await run(odd, '{"schema": "s", "copy": 1}') == '["s",1,"x","m"]'


async def test_the_context_is_no_argument() -> None:
    """A parameter of that type gets the call and the request's context; the schema doesn't show it."""

    @tool(name="who_am_i", description="Who?", return_direct=True, limit=2)
    async def who(context: ToolContext) -> str:
        return f"{context.context['who']} {context.call.id}"

    assert (who.name, who.description, who.return_direct, who.limit) == ("who_am_i", "Who?", True, 2)
    assert who.parameters["properties"] == {}
    assert await run(who, "{}") == "ann 1"


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (None, ""), (3, "3"), ({"ä": [1]}, '{"ä":[1]}'), (Place(city="R"), '{"city":"R","country":"IT"}'),
     (Point(1), '{"x":1}')],
)  # fmt: skip
async def test_results_become_text(value: Any, text: str) -> None:
    """A text as it is; nothing as nothing; anything else as JSON."""

    async def gives() -> Any:
        return value

    assert await run(Tool(gives), "") == text


def test_what_is_no_tool() -> None:
    """Plain functions would block the loop; parameters without a name can't be passed."""

    def plain() -> str:
        return ""

    async def unnamed(*words: str) -> str:
        return ""

    for function in (plain, unnamed):
        with pytest.raises(TypeError):
            Tool(function)  # type: ignore[arg-type]
