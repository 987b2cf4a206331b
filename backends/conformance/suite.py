"""The collection of rules, and running it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from diarist.backends.conformance import (
    atomicity,
    commits,
    erasing,
    exactness,
    lifecycle,
    listing,
    operations,
    paging,
    sharing,
    sizes,
    sweeping,
    versions,
)
from diarist.backends.conformance.harness import NewStore, Store, Violation
from diarist.backends.conformance.scratch import Factory, as_new_store
from diarist.runtime.repository import Capabilities

_TOPICS: Final = (
    lifecycle,
    commits,
    atomicity,
    exactness,
    versions,
    operations,
    paging,
    listing,
    erasing,
    sweeping,
    sizes,
    sharing,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One check. `statement` is the rule in words; `needs` the capability without which it does not apply."""

    topic: str
    name: str
    statement: str
    needs: str | None
    function: Callable[[Store], Awaitable[None]] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.topic}.{self.name}"

    def applies(self, capabilities: Capabilities) -> bool:
        return self.needs is None or bool(getattr(capabilities, self.needs))

    async def run(self, new_store: NewStore) -> None:
        """Check the rule on a store of its own. A `Violation`, or what the repository raised, if it is broken."""
        async with new_store() as connect, AsyncExitStack() as stack:
            store = Store(connect, stack)
            store.repository = await store.another()
            await self.function(store)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one rule. `error` None: it holds. `applies` False: the capabilities leave it out."""

    rule: Rule
    error: Exception | None
    applies: bool = True


@dataclass(slots=True)
class Report:
    """The results, in the order of the suite."""

    results: list[Result] = field(default_factory=list[Result])

    @property
    def failures(self) -> Sequence[Result]:
        return [result for result in self.results if result.error is not None]

    @property
    def ok(self) -> bool:
        return bool(self.results) and not self.failures

    def raise_for_failures(self) -> None:
        """A `Violation` that lists all broken rules, if there are any."""
        if not self.ok:
            raise Violation(str(self))

    def __str__(self) -> str:
        checked = sum(result.applies for result in self.results)
        lines = [f"{checked - len(self.failures)} of {checked} rules hold"]
        if checked < len(self.results):
            lines[0] += f", {len(self.results) - checked} do not apply"
        for result in self.failures:
            lines.append(f"- {result.rule}: {result.rule.statement}")
            lines.append(f"  {type(result.error).__name__}: {result.error}")
        return "\n".join(lines)


def all_checks(capabilities: Capabilities | None = None) -> Sequence[Rule]:
    """All rules, or those that apply to a store with these capabilities."""
    rules = [rule for topic in _TOPICS for rule in _rules_of(topic)]
    return rules if capabilities is None else [rule for rule in rules if rule.applies(capabilities)]


def _rules_of(topic: object) -> list[Rule]:
    name = str(vars(topic)["__name__"]).rpartition(".")[2]
    needs: str | None = vars(topic).get("NEEDS")
    return [
        Rule(name, function.__name__, " ".join((function.__doc__ or "").split()), needs, function)
        for function in vars(topic).values()
        if inspect.iscoroutinefunction(function) and function.__module__ == vars(topic)["__name__"]
        if not function.__name__.startswith("_")
    ]


async def check(factory: Factory, *, report: Report | None = None, timeout: float = 60.0) -> Report:
    """Run the whole suite, each rule on an empty store and for at most `timeout` seconds.

    `factory` makes stores (see the package's docstring). Where nothing is durable, the repository's class will do.

    Never raises for a broken rule: see `Report.ok` and `Report.raise_for_failures`. With `report`, the results are
    added to that one, also while it runs.
    """
    report = Report() if report is None else report
    new_store = as_new_store(factory)
    async with new_store() as connect:
        capabilities = connect().capabilities
    for rule in all_checks():
        if not rule.applies(capabilities):
            report.results.append(Result(rule, None, applies=False))
            continue
        report.results.append(Result(rule, await _error_of(rule, new_store, timeout)))
    return report


async def _error_of(rule: Rule, new_store: NewStore, timeout: float) -> Exception | None:
    try:
        async with asyncio.timeout(timeout):
            await rule.run(new_store)
    except Exception as error:
        return error
    return None
