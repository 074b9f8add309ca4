"""The pytest plugin: ``pytest --warpsmith`` runs the Triton and Numba kernels of all tests on the virtual GPU.

A test with an error finding fails, also if it catches the exception of the launch. PyTorch has a virtual CUDA device, so
suites that were written for a GPU run without a change. What did not run is listed at the end.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from . import _native


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("warpsmith", "kernels on the virtual GPU")
    group.addoption(
        "--warpsmith", action="store_true", help="run Triton and Numba kernels on the virtual GPU, under its checkers"
    )
    group.addoption(
        "--warpsmith-target", default="sm_80", metavar="sm_NN", help="architecture to compile for (default: sm_80)"
    )
    group.addoption(
        "--warpsmith-suppressions", metavar="FILE", help="known findings, each with its reason, that do not fail a test"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "warpsmith_off: run the kernels of this test as usual, not on the virtual GPU")
    _start(config, config.option)


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


class _Run:
    """The virtual GPU of one run of pytest. It is active while tests are collected, too: modules ask for the device when
    they are imported."""

    def __init__(self, target: str, suppressions: str | None) -> None:
        self.target = target
        #: The rules are shared by all libraries and all tests.
        self.known = _native.KnownFindings(suppressions) if suppressions else None
        self.skipped: list[str] = []
        self._sessions: list[Any] = []
        self._stack = ExitStack()

    def start(self) -> None:
        if importlib.util.find_spec("torch") is not None:
            # PyTorch gets its virtual device only if it is imported.
            importlib.import_module("torch")
        self._sessions = [self._stack.enter_context(module.virtual(self.target, suppressions=self.known)) for module in _modules()]

    def stop(self) -> None:
        self.take_reports()
        self._stack.close()
        self._sessions = []

    def take_reports(self) -> list[Any]:
        """The reports of all launches since the last call."""
        reports = [report for session in self._sessions for report in session.reports]
        for session in self._sessions:
            self.skipped += session.skipped
            session.skipped.clear()
            session.reports.clear()
        return reports


_key = pytest.StashKey[_Run]()


def _start(config: pytest.Config, options: Any) -> None:
    if options.warpsmith and _key not in config.stash:
        if not _modules():
            raise pytest.UsageError("--warpsmith: neither Triton nor numba-cuda is installed")
        try:
            config.stash[_key] = run = _Run(options.warpsmith_target, options.warpsmith_suppressions)
        except _native.UsageError as error:
            message = str(error).removeprefix("suppressions: ")
            raise pytest.UsageError(f"--warpsmith-suppressions: {message}") from None
        run.start()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    _start(early_config, early_config.known_args_namespace)


def pytest_unconfigure(config: pytest.Config) -> None:
    if (run := config.stash.get(_key, None)) is not None:
        run.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    run = item.config.stash.get(_key, None)
    if run is None:
        return (yield)
    if item.get_closest_marker("warpsmith_off"):
        run.stop()
        try:
            return (yield)
        finally:
            run.start()
    run.take_reports()
    result = yield
    texts = [report.text for report in run.take_reports() if report.errors or not report.completed]
    if texts:
        # A test that catches the exception of a launch fails here.
        pytest.fail("\n\n".join(texts), pytrace=False)
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Tells what did not run: a skipped test is no proof."""
    run = config.stash.get(_key, None)
    if run is None:
        return
    run.take_reports()
    if run.known and (uses := run.known.uses()):
        terminalreporter.section("warpsmith: known findings")
        for _, line in uses:
            terminalreporter.line(line)
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", []) if report.longrepr]
    if reasons or run.skipped:
        terminalreporter.section("warpsmith: not run on the virtual GPU")
    for reason, count in Counter(reasons).items():
        terminalreporter.line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")
    for text in dict.fromkeys(run.skipped):
        terminalreporter.line(text)
