"""Makes ``notebooks/`` from the chapters, checks it, and gives its outputs to the site.

Usage: ``python tools/notebooks.py build|check|seed|export|status``; see ``--help``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from importlib import metadata
from pathlib import Path

import addresses
import stored
import yaml
from chapters import Chapter, export, read
from digests import digests
from nbformat import NotebookNode
from pins import exact, execution_pins, name
from targets import Source
from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
WORDS = {
    "missing": "it has no notebook",
    "code": "its code cells changed",
    "helpers": "a helper that it imports changed",
    "pins": "a pin of requirements.txt or pyproject.toml changed",
    "prose": "its prose or the exporter changed",
    "orphan": "no chapter of _toc.yml belongs to it",
}


@dataclass(frozen=True)
class Shelf:
    """The chapters of a book beside their notebooks.

    Attributes:
        source: The hand-written book.
        addresses: Where it is published.
    """

    source: Source
    addresses: addresses.Addresses

    @cached_property
    def chapters(self) -> dict[str, Chapter]:
        """Every chapter of the table of contents, read once."""
        pages = self.source.targets.chapters
        return {page: read(self.source, page) for page in pages}

    @cached_property
    def runs(self) -> dict[str, stored.Run | None]:
        """What the committed notebooks record."""
        return {page: stored.load(self.source.root, page) for page in self.chapters}

    @cached_property
    def orphans(self) -> list[str]:
        """Notebooks without a chapter."""
        folder = self.source.root / "notebooks"
        found = (p.relative_to(folder) for p in folder.rglob("*.ipynb"))
        pages = (p.with_suffix("").as_posix() for p in found)
        return sorted(page for page in pages if page not in self.chapters)

    def stale(self, page: str) -> list[str]:
        """What changed since a chapter ran; see :func:`stored.stale`."""
        return stored.stale(self.source, self.chapters[page], self.runs[page])

    def text(self, page: str, run: stored.Run | None = None) -> str:
        """A chapter's notebook with the outputs of a run, by default the stored one."""
        run = run or self.runs[page]
        return stored.text(self.source, self.addresses, self.chapters[page], run)

    def differs(self, page: str) -> bool:
        """Whether a fresh chapter's notebook needs to be exported again."""
        place = stored.path(self.source.root, page)
        return place.read_text(encoding="utf-8") != self.text(page)


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
            print(f"{page}: removed, for {WORDS['orphan']}")
    failures = list(_execute(shelf, waiting))
    for failure in failures:
        print(failure, file=sys.stderr)
    if not failures:
        fresh = len(chosen) - len(waiting)
        print(f"Notebooks: {len(waiting)} executed, {fresh} had not changed.")
    return 1 if failures else 0


def _execute(shelf: Shelf, waiting: list[str]) -> Iterator[str]:
    """Executes chapters, writes each as soon as it is done, and yields failures."""
    able = []
    for page in waiting:
        if lack := _lack(shelf, page):
            yield f"{page}: {lack}"
        else:
            able.append(page)
    if not able:
        return
    # Only an execution needs the kernel's machinery.
    from execute import Executor, versions

    # The longest first, so that none is left to run alone at the end.
    able.sort(key=lambda page: -(shelf.runs[page].seconds if shelf.runs[page] else 1e9))
    notebooks = {
        page: export(shelf.source, shelf.addresses, shelf.chapters[page])
        for page in able
    }
    marks = {page: digests(shelf.source, shelf.chapters[page]) for page in able}
    total = sum(len(shelf.chapters[page].code) + 1 for page in able)
    with tqdm(total=total, unit=" cells", disable=None) as bar:
        executor = Executor(_timeout(shelf.source.root), lambda: bar.update())
        for outcome in executor.run(notebooks):
            if outcome.error:
                yield f"{outcome.name}: {outcome.error}"
                continue
            run = _run(
                notebooks[outcome.name],
                outcome.seconds,
                marks[outcome.name],
                versions(),
            )
            try:
                content = shelf.text(outcome.name, run)
            except ValueError as error:
                yield str(error)
                continue
            stored.write(stored.path(shelf.source.root, outcome.name), content)
            bar.write(
                f"{outcome.name}: executed in {outcome.seconds:.1f} s", sys.stdout
            )


def _run(
    notebook: NotebookNode,
    seconds: float,
    digest: dict[str, str],
    versions: dict[str, str],
) -> stored.Run:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return stored.Run(
        executed=date.today().isoformat(),
        seconds=round(seconds, 1),
        versions=versions,
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
        package, wanted = name(line), exact(line)
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


def check(shelf: Shelf) -> int:
    """Lists what is stale, missing or left over, each with its reason.

    Args:
        shelf: The book.

    Returns:
        The exit status: 1 if there is anything to list.
    """
    found = {page: shelf.stale(page) for page in shelf.chapters}
    for page, reasons in found.items():
        if not reasons and shelf.differs(page):
            reasons.append("prose")
    found |= {page: ["orphan"] for page in shelf.orphans}
    faults = [
        f"{shelf.addresses.notebook(page)}: {WORDS[reason]}"
        for page, reasons in found.items()
        for reason in reasons
    ]
    if faults:
        print(*faults, "Run `make notebooks` and commit the result.", sep="\n")
        return 1
    print(f"Notebooks: all {len(shelf.chapters)} are fresh.")
    return 0


def seed(shelf: Shelf) -> int:
    """Gives the outputs of fresh notebooks to the site's execution cache.

    Args:
        shelf: The book.

    Returns:
        The exit status, 0: the site itself executes what is stale.
    """
    import cache

    new = 0
    stale = [page for page in shelf.chapters if shelf.stale(page)]
    with cache.opened(shelf.source.root) as opened:
        for page, chapter in shelf.chapters.items():
            if page in stale:
                cache.forget(opened, chapter)
            else:
                new += cache.seed(opened, chapter, shelf.runs[page])
    print(
        f"Cache: {len(shelf.chapters) - len(stale)} chapters ready, {new} of them new."
    )
    for page in stale:
        print(f"{page}: the site has to execute it, for its notebook is stale")
    return 0


def export_all(shelf: Shelf, folder: Path) -> int:
    """Writes every notebook, with its stored outputs, for the addresses in force.

    Args:
        shelf: The book.
        folder: Where to write; parts of the book become folders in it.

    Returns:
        The exit status.
    """
    stale = [page for page in shelf.chapters if shelf.stale(page)]
    if stale:
        print(
            f"expected fresh notebooks, got stale ones: {', '.join(stale)}",
            file=sys.stderr,
        )
        return 1
    for page in shelf.chapters:
        stored.write(folder / f"{page}.ipynb", shelf.text(page))
    print(f"Notebooks: {len(shelf.chapters)} written to {folder}.")
    return 0


def status(shelf: Shelf) -> int:
    """Prints, as JSON, what is known of each chapter's last run.

    Args:
        shelf: The book.

    Returns:
        The exit status.
    """
    print(json.dumps({page: _status(shelf, page) for page in shelf.chapters}, indent=2))
    return 0


def _status(shelf: Shelf, page: str) -> dict:
    reasons, run = shelf.stale(page), shelf.runs[page]
    return {
        "title": shelf.source.targets.pages[page].title,
        "fresh": not reasons,
        "stale": reasons,
        "executed": run.executed if run else None,
        "seconds": run.seconds if run else None,
        "versions": run.versions if run else {},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="the book's root")
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="execute and export what changed")
    building.add_argument("chapters", nargs="*", metavar="CHAPTER")
    building.add_argument("--force", action="store_true", help="execute fresh ones too")
    commands.add_parser("check", help="fail if a notebook is not up to date")
    commands.add_parser("seed", help="give the outputs to the site's cache")
    exporting = commands.add_parser("export", help="write notebooks elsewhere")
    exporting.add_argument("--to", type=Path, required=True, metavar="DIR")
    commands.add_parser("status", help="print each chapter's last run as JSON")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: Of the command line.

    Returns:
        The exit status; 1 with one sentence on stderr for a fault of the book.
    """
    chosen = _parser().parse_args(arguments)
    try:
        book = addresses.load(chosen.root / "_config.yml")
        shelf = Shelf(Source(chosen.root.resolve()), book)
        if chosen.command == "build":
            return build(shelf, chosen.chapters, chosen.force)
        if chosen.command == "export":
            return export_all(shelf, chosen.to)
        return {"check": check, "seed": seed, "status": status}[chosen.command](shelf)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; finished chapters are kept.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
