"""One suite of one-rule checks for any repository.

    from diarist.backends.conformance import check

    @asynccontextmanager
    async def new_store():                       # an empty store, gone when the block ends
        with TemporaryDirectory() as folder:
            yield lambda: MyRepository(folder)   # each call: another repository on that store

    report = await check(new_store)
    print(report)
    report.raise_for_failures()

Under pytest, parametrise over `all_checks(capabilities)` and call `rule.run(new_store)`. A store is done when all
pass. The docstring of each check is the rule; which rules apply is decided by the capabilities alone.
"""

from diarist.backends.conformance.harness import NewStore, Store, Violation
from diarist.backends.conformance.suite import Report, Result, Rule, all_checks, check

__all__ = ["NewStore", "Report", "Result", "Rule", "Store", "Violation", "all_checks", "check"]
