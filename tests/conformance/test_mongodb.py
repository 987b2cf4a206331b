"""The conformance suite over MongoDB's protocol, through both drivers."""

from __future__ import annotations

import pytest

from diarist.backends.conformance import Rule, all_checks
from diarist.backends.mongodb import MongoDBRepository
from tests.conformance.mongodb_stores import motor_stores, pymongo_stores, settings
from tests.servers.fixtures import Server

RULES = all_checks(MongoDBRepository.open("mongodb://localhost/test", settings=settings()).capabilities)


@pytest.mark.parametrize("rule", RULES, ids=str)
async def test_pymongo(rule: Rule, mongodb_server: Server) -> None:
    await rule.run(pymongo_stores(mongodb_server.url))


@pytest.mark.parametrize("rule", RULES, ids=str)
async def test_motor(rule: Rule, mongodb_server: Server) -> None:
    await rule.run(motor_stores(mongodb_server.url))
