"""The pytest plugin: ``pytest --warpsmith`` runs the Triton and Numba kernels of all tests on the virtual GPU.

A test with an error finding fails, also if it catches the exception of the launch.
"""

from __future__ import annotations

import importlib.util
from contextlib import ExitStack
from typing import Any, Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("warpsmith", "kernels on the virtual GPU")
    group.addoption(
        "--warpsmith", action="store_true", help="run Triton and Numba kernels on the virtual GPU, under its checkers"
    )
    group.addoption(
        "--warpsmith-target", default="sm_80", metavar="sm_NN", help="architecture to compile for (default: sm_80)"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "warpsmith_off: run the kernels of this test as usual, not on the virtual GPU")


def _modules() -> list[Any]:
    """The modules for the libraries that are installed."""
    found = []
    if importlib.util.find_spec("triton"):
        from . import triton

        found.append(triton)
    if importlib.util.find_spec("numba_cuda"):
        from . import numba

        found.append(numba)
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if not item.config.getoption("--warpsmith") or item.get_closest_marker("warpsmith_off"):
        return (yield)
    target = item.config.getoption("--warpsmith-target")
    with ExitStack() as stack:
        sessions = [stack.enter_context(module.virtual(target)) for module in _modules()]
        result = yield
    reports = [report for session in sessions for report in session.reports]
    texts = [report.text for report in reports if report.errors or not report.completed]
    if texts:
        # A test that catches the exception of a launch fails here.
        pytest.fail("\n\n".join(texts), pytrace=False)
    return result
