"""Makes ``notebooks/`` from the chapters, checks it, and gives its outputs to the site.

Usage: ``python tools/notebooks.py build|check|seed|export|status``; see ``--help``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import addresses
import stored
from rebuild import ORPHANED, build
from shelf import Shelf
from targets import Source

ROOT = Path(__file__).resolve().parent.parent
WORDS = {
    "missing": "it has no notebook",
    "code": "its code cells changed",
    "helpers": "a helper that it imports changed",
    "pins": "a pin of requirements.txt or pyproject.toml changed",
    "prose": "its prose or the exporter changed",
    "orphan": ORPHANED,
}


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
