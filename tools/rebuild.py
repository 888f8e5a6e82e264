"""Executes the chapters that changed and writes their notebooks."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date
from importlib import metadata
from pathlib import Path

import stored
import yaml
from chapters import ChapterError, export
from digests import digests
from nbformat import NotebookNode
from pins import exact, execution_pins, package_of
from shelf import Shelf
from tqdm import tqdm

PACKAGES = ("jax", "jaxlib", "libtpu", "numpy", "matplotlib", "torch")
ORPHANED = "no chapter of _toc.yml belongs to it"


def build(shelf: Shelf, pages: Sequence[str], force: bool) -> int:
    """Executes what changed, and exports again what else differs.

    Args:
        shelf: The book.
        pages: The chapters to look at; all, if there are none.
        force: Execute fresh chapters too.

    Returns:
        The exit status.
    """
    if unknown := set(pages) - set(shelf.chapters):
        raise ValueError(
            f"expected chapters among {sorted(shelf.chapters)}, got {sorted(unknown)}"
        )
    chosen = [page for page in shelf.chapters if page in pages or not pages]
    waiting = [page for page in chosen if force or shelf.stale(page)]
    for page in chosen:
        if page not in waiting and shelf.differs(page):
            place = stored.path(shelf.source.root, page)
            stored.write(place, shelf.text(page))
            print(f"{page}: exported again, with the outputs it had")
    if not pages:
        for page in shelf.orphans:
            stored.path(shelf.source.root, page).unlink()
            print(f"{page}: removed, for {ORPHANED}")
    failures = 0
    for failure in _execute(shelf, waiting):
        print(failure, file=sys.stderr)
        failures += 1
    if not failures:
        fresh = len(chosen) - len(waiting)
        print(f"Notebooks: {len(waiting)} executed, {fresh} had not changed.")
    return 1 if failures else 0


def _execute(shelf: Shelf, waiting: list[str]) -> Iterator[str]:
    """Executes chapters, writes each as soon as it is done, and yields failures."""
    lacking = {page: _lack(shelf, page) for page in waiting}
    yield from (f"{page}: {lack}" for page, lack in lacking.items() if lack)
    able = [page for page in waiting if not lacking[page]]
    if not able:
        return
    # Only an execution needs the kernel's machinery.
    from execute import Executor

    # The longest first, so that none is left to run alone at the end.
    able.sort(key=lambda page: -(shelf.runs[page].seconds if shelf.runs[page] else 1e9))
    chapters = {page: shelf.chapters[page] for page in able}
    notebooks = {
        page: export(shelf.source, shelf.addresses, chapter)
        for page, chapter in chapters.items()
    }
    # Before the run: what is edited meanwhile makes the result stale.
    marks = {page: digests(shelf.source, chapter) for page, chapter in chapters.items()}
    total = sum(len(chapter.code) + 1 for chapter in chapters.values())
    with tqdm(total=total, unit=" cells", disable=None) as bar:
        executor = Executor(_timeout(shelf.source.root), lambda: bar.update())
        for outcome in executor.run(notebooks):
            page = outcome.name
            if outcome.error:
                yield f"{page}: {outcome.error}"
                continue
            run = _run(notebooks[page], outcome.seconds, marks[page])
            if error := _write(shelf, page, run):
                yield error
            else:
                bar.write(f"{page}: executed in {outcome.seconds:.1f} s", sys.stdout)


def _write(shelf: Shelf, page: str, run: stored.Run) -> str:
    """Writes a chapter's notebook, or says why its outputs cannot be published."""
    try:
        content = shelf.text(page, run)
    except ChapterError as error:
        return str(error)
    stored.write(stored.path(shelf.source.root, page), content)
    return ""


def _run(notebook: NotebookNode, seconds: float, digest: dict[str, str]) -> stored.Run:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return stored.Run(
        executed=date.today().isoformat(),
        seconds=round(seconds, 1),
        versions=_versions(),
        digest=digest,
        outputs=[cell.outputs for cell in cells],
        counts=[cell.execution_count for cell in cells],
    )


def _lack(shelf: Shelf, page: str) -> str:
    """Why this Python cannot make the outputs that are committed, or nothing."""
    needed = shelf.chapters[page].needs
    for package in sorted(needed):
        if importlib.util.find_spec(package) is None:
            return f"expected {package} to be installed, for some of its cells need it"
    for line in execution_pins(shelf.source.root, needed):
        package, wanted = package_of(line), exact(line)
        try:
            found = metadata.version(package).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
        if found != wanted:
            return f"expected {package} {wanted}, as pinned, got {found}"
    return ""


def _timeout(root: Path) -> int:
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    return settings["execute"].get("timeout", 600)


def _versions() -> dict[str, str]:
    """The versions of what bears on outputs, as far as it is installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
