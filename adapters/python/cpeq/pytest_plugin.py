"""pytest shows a verdict as it is: no traceback around it."""

import sys

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    verdict = sys.modules.get("cpeq.verdict")
    if verdict and call.excinfo is not None and isinstance(call.excinfo.value, verdict.Different):
        outcome.get_result().longrepr = str(call.excinfo.value)
