"""The pytest plugin: ``pytest --warpsmith`` runs the Triton and Numba kernels of all tests on the virtual GPU.

A test with an error finding fails, also if it catches the exception of the launch.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

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
    if config.getoption("--warpsmith") and not _modules():
        raise pytest.UsageError("--warpsmith: neither Triton nor numba-cuda is installed")


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.getoption("--warpsmith"):
        return None
    names = [module.__name__.split(".")[-1] for module in _modules()]
    target = config.getoption("--warpsmith-target")
    return f"warpsmith: kernels of {' and '.join(names)} run on the virtual GPU for {target}"


def _modules() -> list[Any]:
    """The modules for the libraries that are installed."""
    found = []
    for name in ("triton", "numba"):
        try:
            found.append(importlib.import_module(f"warpsmith.{name}"))
        except ImportError:
            continue
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
