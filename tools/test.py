"""Runs every test of the book in stages and ends with their counts."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BROWSER = "tests/test_browser.py"
# Whole modules go to one worker, since they share a built site or a kernel.
PARALLEL = ("-n", "2", "--dist", "loadscope")
NBVAL = (
    *("-p", "tests.nbval_plugin", "--nbval", "--nbval-current-env"),
    *("--nbval-sanitize-with", "tests/nbval.cfg"),
)


@dataclass(frozen=True)
class Stage:
    """One step of the tests: what it shows and the module that Python runs for it."""

    title: str
    arguments: tuple[str, ...]

    @property
    def counts(self) -> bool:
        """Whether pytest runs the stage, so that it has counts to report."""
        return self.arguments[:2] == ("-m", "pytest")


@dataclass(frozen=True)
class Result:
    """How a stage ended."""

    title: str
    passed: bool
    seconds: float
    counts: str


def pytest_stage(title: str, *arguments: str) -> Stage:
    """A stage that pytest runs."""
    quiet = ("-q", "--no-header", "-rs", "--color=auto")
    return Stage(title, ("-m", "pytest", *quiet, *arguments))


STAGES = (
    Stage("Style", ("-m", "ruff", "check", "--quiet")),
    Stage("Formatting", ("-m", "ruff", "format", "--check", "--quiet")),
    Stage("Notebooks are up to date", ("tools/notebooks.py", "check")),
    pytest_stage("Unit and book tests", *PARALLEL, "tests", f"--ignore={BROWSER}"),
    pytest_stage("Browser tests", BROWSER),
    pytest_stage("Every cell of every notebook", *NBVAL, *PARALLEL, "notebooks"),
)


def read_counts(report: Path) -> str:
    """Adds up the test suites of a JUnit report.

    Args:
        report: The file that pytest wrote.

    Returns:
        Such as ``12 passed, 1 failed, 0 skipped``.
    """
    total = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in ElementTree.parse(report).iter("testsuite"):
        for name in total:
            total[name] += int(suite.get(name, 0))
    failed = total["failures"] + total["errors"]
    passed = total["tests"] - failed - total["skipped"]
    return f"{passed} passed, {failed} failed, {total['skipped']} skipped"


def run(stage: Stage, root: Path) -> Result:
    """Runs a stage, its output going where ours goes.

    Args:
        stage: The stage.
        root: The checkout.

    Returns:
        How it ended.
    """
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        extra = [f"--junitxml={report}"] if stage.counts else []
        start = time.monotonic()
        command = [sys.executable, *stage.arguments, *extra]
        status = subprocess.run(command, cwd=root).returncode
        seconds = time.monotonic() - start
        counts = read_counts(report) if report.exists() else ""
    return Result(stage.title, status == 0, seconds, counts)


def line(result: Result) -> str:
    """One line of the summary."""
    verdict = "ok" if result.passed else "FAILED"
    return f"  {verdict:6} {result.title:28} {result.seconds:5.0f} s  {result.counts}"


def main(root: Path) -> int:
    """Runs all stages, also after one has failed.

    Args:
        root: The checkout.

    Returns:
        The number of stages that failed.
    """
    results = []
    for number, stage in enumerate(STAGES, 1):
        print(f"\n[{number}/{len(STAGES)}] {stage.title} …", flush=True)
        results.append(run(stage, root))
        print(line(results[-1]), flush=True)
    print("\nTests:")
    for result in results:
        print(line(result).rstrip())
    failed = sum(not result.passed for result in results)
    print(f"{len(results) - failed} of {len(results)} stages passed.")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(ROOT), 1))
