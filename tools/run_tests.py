"""Runs every test of the book in stages and ends with their counts."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BROWSER = "tests/test_browser.py"
# Whole modules go to one worker, since they share a kernel or a copy of the book; they
# start in the order given, the longest first.
PARALLEL = ("-n", "2", "--dist", "loadscope", "--no-loadscope-reorder")
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
    counts: Counter[str] = field(default_factory=Counter)


def pytest_stage(title: str, *arguments: str) -> Stage:
    """A stage that pytest runs."""
    quiet = ("-q", "--no-header", "-rs", "--color=auto")
    return Stage(title, ("-m", "pytest", *quiet, *arguments))


STAGES = (
    Stage("Style", ("-m", "ruff", "check", "--quiet")),
    Stage("Formatting", ("-m", "ruff", "format", "--check", "--quiet")),
    Stage("Notebooks are up to date", ("tools/notebooks.py", "check")),
    Stage("The site builds", ("tools/site.py", "build")),
    pytest_stage(
        *("Cells, helpers and book", *NBVAL, *PARALLEL),
        *("notebooks", "tests", f"--ignore={BROWSER}"),
    ),
    # By itself, because it measures how fast pages appear.
    pytest_stage("Browser tests", BROWSER),
)


def read_counts(report: Path) -> Counter[str]:
    """Adds up the test suites of a JUnit report.

    Args:
        report: The file that pytest wrote.

    Returns:
        The number of tests by outcome: passed, failed, skipped.
    """
    total: Counter[str] = Counter()
    for suite in ElementTree.parse(report).iter("testsuite"):
        tests, failures, errors, skipped = (
            int(suite.get(name, 0))
            for name in ("tests", "failures", "errors", "skipped")
        )
        failed = failures + errors
        total.update(passed=tests - failed - skipped, failed=failed, skipped=skipped)
    return total


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
        counts = read_counts(report) if report.exists() else Counter()
    return Result(stage.title, status == 0, seconds, counts)


def counted(counts: Counter[str]) -> str:
    """Such as ``12 passed, 0 failed, 1 skipped``; empty where nothing was counted."""
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.items())


def line(result: Result) -> str:
    """One line of the summary."""
    verdict = "ok" if result.passed else "FAILED"
    start = f"  {verdict:6} {result.title:30} {result.seconds:5.0f} s  "
    return (start + counted(result.counts)).rstrip()


def summary(results: Iterable[Result]) -> str:
    """All stages in a table, and below it the tests of all together."""
    results = list(results)
    total = sum((result.counts for result in results), Counter())
    failed = sum(not result.passed for result in results)
    stages = f"{len(results) - failed} of {len(results)} stages passed"
    tests = ", ".join(
        f"{total[each]} {each}" for each in ("passed", "failed", "skipped")
    )
    return "\n".join(["Tests:", *map(line, results), f"{stages}; {tests}."])


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
    print("\n" + summary(results))
    return sum(not result.passed for result in results)


if __name__ == "__main__":
    sys.exit(min(main(ROOT), 1))
