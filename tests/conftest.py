"""What holds for every test: a skip is a failure where it is told to be, and nothing leaks a position."""

import os
from collections.abc import Generator

import pytest

SKIPS_FAIL = os.environ.get("HEREABOUTS_SKIPS_FAIL") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI everything that tests need is installed, so a skip there means that something was not tested."""
    report = yield
    if SKIPS_FAIL and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} was skipped, and HEREABOUTS_SKIPS_FAIL=1: {call.excinfo and call.excinfo.value}"
        )
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """The same for a module that skips itself while it is collected."""
    if SKIPS_FAIL and report.skipped:
        report.outcome = "failed"
