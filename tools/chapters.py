"""A chapter as its cells, and the notebook that is made from them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import nbformat
from addresses import Addresses
from myst import Converter
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from myst_syntax import extensions
from nbformat import NotebookNode
from pins import pins
from setup_cell import METADATA, render
from targets import Source

_NEEDS = re.compile(r"#\s*needs:\s*(.+)")
_HIDDEN = {"hide-input", "hide-cell", "remove-input"}


class ChapterError(ValueError):
    """A chapter that cannot become a notebook; the message says why."""


@dataclass(frozen=True)
class Chapter:
    """A chapter as read from its source.

    Attributes:
        page: The document, such as ``functions/state``.
        cells: All cells in order, as the site reads them.
        lines: The line of each cell's first line in the file, from 1.
        kernelspec: The kernel that the chapter names.
    """

    page: str
    cells: list[NotebookNode]
    lines: list[int]
    kernelspec: NotebookNode

    @property
    def code(self) -> list[NotebookNode]:
        """The code cells in order."""
        return [cell for cell in self.cells if cell.cell_type == "code"]

    @property
    def needs(self) -> set[str]:
        """The packages without which some cell is skipped."""
        return {package for cell in self.code for package in needs(cell)}


def needs(cell: NotebookNode) -> set[str]:
    """The packages that a cell's ``needs-…`` tags name."""
    tags = cell.metadata.get("tags", [])
    return {tag.removeprefix("needs-") for tag in tags if tag.startswith("needs-")}


def read(source: Source, page: str) -> Chapter:
    """Reads a chapter with the reader that the site uses.

    Args:
        source: The hand-written book.
        page: The document.

    Returns:
        The chapter.

    Raises:
        ChapterError: If a cell's ``needs`` tags and its first line disagree.
    """
    config = MdParserConfig(enable_extensions=extensions(source.root))
    notebook = read_myst_markdown_notebook(
        source.text(page), config, path=page, add_source_map=True
    )
    starts = list(_starts(source.text(page), notebook))
    chapter = Chapter(page, notebook.cells, starts, notebook.metadata.kernelspec)
    for cell, line in zip(chapter.cells, starts, strict=True):
        comment = _NEEDS.match(cell.source)
        said = set(re.split(r"\s*,\s*", comment[1].strip())) if comment else set()
        if cell.cell_type == "code" and said != needs(cell):
            raise ChapterError(
                f"{source.file(page)}:{line}: the tags say that this cell needs "
                f"{sorted(needs(cell))}, its first line says {sorted(said)}"
            )
    return chapter


def _starts(text: str, notebook: NotebookNode) -> Iterator[int]:
    """The line of each cell's first line, from 1.

    The reader's map counts from 0 for text, before the blank lines that it drops, and
    from 1 for code.
    """
    lines = text.split("\n")
    for cell, start in zip(notebook.cells, notebook.metadata.source_map, strict=True):
        if cell.cell_type == "code":
            yield start
            continue
        while not lines[start].strip():
            start += 1
        yield start + 1


def export(source: Source, addresses: Addresses, chapter: Chapter) -> NotebookNode:
    """Makes the notebook of a chapter, without outputs.

    Args:
        source: The hand-written book.
        addresses: Where the book is published.
        chapter: One of its chapters.

    Returns:
        A notebook of format 4.5 whose first code cell sets up its surroundings.

    Raises:
        ChapterError: If the chapter does not begin with its title.
    """
    title, *rest = _converted(source, addresses, chapter)
    heading, _, opening = title.source.partition("\n")
    if title.cell_type != "markdown" or not heading.startswith("# "):
        raise ChapterError(
            f"{source.file(chapter.page)}: expected a title such as '# What …?' "
            f"before anything else, got {heading!r}"
        )
    title.source = f"{heading}\n\n{_links(addresses, chapter.page)}"
    setup = nbformat.v4.new_code_cell(
        render(addresses, pins(source.root)), metadata=METADATA
    )
    cells = [title, setup]
    if opening.strip():
        cells.append(nbformat.v4.new_markdown_cell(opening.strip("\n")))
    notebook = nbformat.v4.new_notebook(cells=cells + rest)
    notebook.nbformat_minor = 5
    notebook.metadata = nbformat.from_dict(_metadata(chapter))
    _identify(chapter.page, notebook.cells)
    return notebook


def _converted(
    source: Source, addresses: Addresses, chapter: Chapter
) -> Iterator[NotebookNode]:
    """The cells of a chapter as viewers of notebooks understand them."""
    converter = Converter(source, addresses, chapter.page)
    for cell, line in zip(chapter.cells, chapter.lines, strict=True):
        if cell.cell_type == "code":
            tags = cell.metadata.get("tags", [])
            metadata: dict = {"tags": tags} if tags else {}
            if converter.folded or _HIDDEN & set(tags):
                metadata |= {"cellView": "form", "jupyter": {"source_hidden": True}}
            yield nbformat.v4.new_code_cell(cell.source, metadata=metadata)
        elif shown := converter.cell(cell.source, line):
            yield nbformat.v4.new_markdown_cell(shown)


def _links(addresses: Addresses, page: str) -> str:
    return (
        f"[Read this chapter on the site]({addresses.page(page)}) · "
        f"[Open in Colab]({addresses.colab(page)}) · "
        f"[Open in Kaggle]({addresses.kaggle(page)})"
    )


def _metadata(chapter: Chapter) -> dict:
    name = chapter.page.rpartition("/")[2]
    return {
        "accelerator": "TPU",
        "colab": {"gpuType": "V5E1", "name": f"{name}.ipynb", "provenance": []},
        "kernelspec": dict(chapter.kernelspec),
        "language_info": {"name": "python"},
    }


def _identify(page: str, cells: Iterable[NotebookNode]) -> None:
    """Names each cell after its content, so that an edit renames no other cell."""
    seen: dict[str, int] = {}
    for cell in cells:
        text = cell.cell_type + cell.source
        seen[text] = seen.get(text, 0) + 1
        identity = f"{page} {seen[text]} {text}"
        cell.id = hashlib.sha256(identity.encode()).hexdigest()[:16]
