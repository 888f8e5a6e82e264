"""The net holds: each fault, planted in a copy of the book, turns its check red."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import run_tests

ROOT = Path(__file__).resolve().parent.parent
CELLS = {
    # fault: (source, the output a reader was promised)
    "sound": ("print(6 * 7)", "42\n"),
    "failing-cell": ("print(6 / 0)", "42\n"),
    "changed-output": ("print(6 * 8)", "42\n"),
    "wrong-solution": (
        "from helpers.exercises import state\nstate.pure_ones({'a', 'b'})",
        "Correct.\n",
    ),
}
FAULTS_OF_PAGES = {
    "test_links_and_anchors_resolve": '<a href="gone.html">a link</a>',
    "test_images_have_alternative_text": '<img src="_static/favicon.svg">',
    "test_pages_fetch_nothing_from_other_hosts": (
        '<script src="https://planted.example/script.js"></script>'
    ),
}


def copy_of_the_book(root: Path) -> Path:
    """Copies every tracked file, as it is now, to a folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    return root


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs this Python in a copy of the book."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=root, capture_output=True, text=True
    )


def stage(title: str) -> run_tests.Stage:
    """The stage of `make test` with that title."""
    return next(each for each in run_tests.STAGES if each.title == title)


@pytest.fixture(scope="module")
def notebooks_report(tmp_path_factory) -> str:
    """What the notebooks' stage says of one sound cell and three with a fault."""
    root = copy_of_the_book(tmp_path_factory.mktemp("notebooks"))
    shutil.rmtree(root / "notebooks")
    (root / "notebooks").mkdir()
    cells = []
    for source, promised in CELLS.values():
        output = nbformat.v4.new_output("stream", text=promised)
        cells.append(
            nbformat.v4.new_code_cell(source, outputs=[output], execution_count=1)
        )
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbformat.write(notebook, root / "notebooks" / "planted.ipynb")
    command = run_tests.pytest_stage("", *run_tests.NBVAL, "notebooks").arguments
    done = run(root, *command, "-rA", "--color=no")
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_with_a_fault_fails_and_a_sound_one_passes(notebooks_report, name):
    verdict = "PASSED" if name == "sound" else "FAILED"
    cell = f"notebooks/planted.ipynb::Cell {list(CELLS).index(name)}"
    assert re.search(rf"^{verdict} {cell}\b", notebooks_report, re.M)


def test_a_chapter_edited_after_its_run_is_stale(tmp_path):
    root = copy_of_the_book(tmp_path)
    command = stage("Notebooks are up to date").arguments
    assert run(root, *command).returncode == 0
    chapter = root / "book" / "functions" / "state.md"
    text = chapter.read_text(encoding="utf-8")
    opening = "```{code-cell} python\n"
    assert opening in text
    chapter.write_text(text.replace(opening, f"{opening}1 + 1\n", 1), encoding="utf-8")
    done = run(root, *command)
    assert done.returncode == 1
    assert "functions/state" in done.stdout + done.stderr


@pytest.fixture(scope="module")
def small_book(tmp_path_factory) -> Path:
    """A copy of the book with two pages of its own, so that it builds in seconds."""
    root = copy_of_the_book(tmp_path_factory.mktemp("site"))
    shutil.rmtree(root / "notebooks")
    for page in (root / "book").rglob("*.md"):
        if page.name != "404.md":
            page.unlink()
    (root / "_toc.yml").write_text(
        "format: jb-book\nroot: intro\nchapters:\n  - file: planted\n"
    )
    (root / "book" / "intro.md").write_text("# A small book\n\nOne page follows.\n")
    planted = "\n\n".join(FAULTS_OF_PAGES.values())
    (root / "book" / "planted.md").write_text(f"# Planted\n\n{planted}\n")
    return root


@pytest.fixture(scope="module")
def site_report(small_book) -> str:
    """What the site's tests say of a page with three faults."""
    chosen = " or ".join(FAULTS_OF_PAGES)
    options = ("-p", "no:cacheprovider", "-n0", "-rA", "--color=no", "-k", chosen)
    done = run(small_book, "-m", "pytest", *options, "tests/test_site.py")
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", FAULTS_OF_PAGES)
def test_a_page_with_a_fault_fails_its_test(site_report, name):
    assert re.search(rf"^FAILED tests/test_site\.py::{name} ", site_report, re.M)
    planted = re.search('(?:href|src)="(.+?)"', FAULTS_OF_PAGES[name])[1]
    assert planted in site_report


def test_a_reference_to_nowhere_fails_the_build(small_book):
    (small_book / "book" / "planted.md").write_text("# Planted\n\n[gone](no-page.md)\n")
    done = run(small_book, "tools/site.py", "build")
    assert done.returncode == 1
    assert "no-page.md" in done.stdout + done.stderr
