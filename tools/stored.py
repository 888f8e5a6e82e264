"""The committed notebooks: their outputs, their record of a run, their freshness."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from addresses import Addresses
from chapters import Chapter, ChapterError, export
from digests import digests
from nbformat import NotebookNode
from targets import Source

# Where somebody's files lie: a published output must not tell, and cannot repeat it.
_MACHINE = re.compile(
    r"/(?:home|root|Users|tmp|private/var|var/folders)/[^\s\"'<>]*"
    r"|[A-Z]:\\Users\\[^\s\"'<>]*|[^\s\"'<>]*(?:site|dist)-packages[^\s\"'<>]*"
    r"|/[^\s\"'<>]*/python3\.\d+/[^\s\"'<>]*"
)


@dataclass(frozen=True)
class Run:
    """One execution of a chapter.

    Attributes:
        executed: The day, as ISO 8601 writes it.
        seconds: Wall time of all cells and of starting the kernel.
        versions: Of Python and of the packages that bear on the outputs.
        digest: Of code, helpers and pins, as they were.
        outputs: Of every code cell in order, the set-up cell first.
        counts: The execution count of every code cell.
    """

    executed: str
    seconds: float
    versions: dict[str, str]
    digest: dict[str, str]
    outputs: list[list[NotebookNode]] = field(repr=False)
    counts: list[int | None] = field(repr=False)


def path(root: Path, page: str) -> Path:
    """The notebook of a chapter."""
    return root / "notebooks" / f"{page}.ipynb"


def load(root: Path, page: str) -> Run | None:
    """Reads the run that a committed notebook records.

    Args:
        root: The book's root.
        page: The chapter.

    Returns:
        The run, or None if there is no notebook or it records none.
    """
    place = path(root, page)
    if not place.is_file():
        return None
    notebook = nbformat.read(place, as_version=4)
    if "book" not in notebook.metadata:
        return None
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return Run(
        **notebook.metadata.book,
        outputs=[cell.outputs for cell in cells],
        counts=[cell.execution_count for cell in cells],
    )


def stale(source: Source, chapter: Chapter, run: Run | None) -> list[str]:
    """Says what changed since a chapter ran.

    Args:
        source: The hand-written book.
        chapter: One of its chapters.
        run: The run that its notebook records.

    Returns:
        ``missing``, or some of ``code``, ``helpers`` and ``pins``; nothing if fresh.
    """
    if run is None:
        return ["missing"]
    now = digests(source, chapter)
    return [part for part in now if now[part] != run.digest.get(part)]


def text(source: Source, addresses: Addresses, chapter: Chapter, run: Run) -> str:
    """The notebook of a chapter with the outputs of a run.

    Args:
        source: The hand-written book.
        addresses: Where the book is published.
        chapter: One of its chapters.
        run: A run of exactly these code cells.

    Returns:
        The notebook as JSON, byte for byte the same for the same arguments.

    Raises:
        ChapterError: If an output shows a path of the machine that made it.
    """
    notebook = export(source, addresses, chapter)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell, outputs, count in zip(cells, run.outputs, run.counts, strict=True):
        cell.outputs, cell.execution_count = outputs, count
        if found := machine_path(outputs):
            raise ChapterError(
                f"{chapter.page}: an output of the cell "
                f"{cell.source.splitlines()[0]!r} shows the machine's path {found!r}"
            )
    notebook.metadata["book"] = {
        "digest": run.digest,
        "executed": run.executed,
        "seconds": run.seconds,
        "versions": run.versions,
    }
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def machine_path(outputs: list[NotebookNode]) -> str:
    """Finds a path of the machine in what a cell put out.

    Args:
        outputs: Of one cell.

    Returns:
        The first such path, or nothing. Pictures are not searched.
    """
    for output in outputs:
        shown = [output.get("text", ""), *output.get("traceback", [])]
        shown += [
            str(value)
            for kind, value in output.get("data", {}).items()
            if not kind.startswith("image/") or kind == "image/svg+xml"
        ]
        for piece in shown:
            if match := _MACHINE.search(piece):
                return match[0]
    return ""


def write(place: Path, content: str) -> None:
    """Writes a file whole or not at all.

    Args:
        place: The file; folders above it are made.
        content: What it shall hold.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(content)
    # mkstemp makes the file private, which a committed file is not.
    os.chmod(name, 0o644)
    os.replace(name, place)
