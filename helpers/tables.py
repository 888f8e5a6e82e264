"""Small tables: HTML with a caption in notebooks, aligned text everywhere else."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.units import format_number, python_scalar

__all__ = ["KINDS", "Table", "table"]

KINDS = ("bound", "estimate", "compiled", "measured")
"""What a figure can be: a limit, a model's answer, XLA's report, or a clock's."""

_NUMBER_TEXT = re.compile(r"[-+~≈<>≤≥]*\s*\d[\d.,]*(e[-+]?\d+)?(\s?[%×\w/µ]+)?")


@dataclass(frozen=True)
class Table:
    """A table of text, shown as HTML in notebooks and as aligned text elsewhere.

    Attributes:
        header: The column names.
        rows: The cells, each as long as the header.
        caption: What the table shows; may be empty.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def _right_aligned(self) -> list[bool]:
        columns = zip(*self.rows, strict=True)
        return [
            all(cell == "—" or _NUMBER_TEXT.fullmatch(cell) for cell in column)
            for column in columns
        ]

    def __repr__(self) -> str:
        """Lays the table out in columns of plain text."""
        right = self._right_aligned()
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, tuple("-" * width for width in widths))
        text = [
            "  ".join(
                cell.rjust(width) if flush else cell.ljust(width)
                for cell, width, flush in zip(line, widths, right, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.caption, *text] if self.caption else text)

    def _repr_html_(self) -> str:
        """Marks the table up: caption, column headings, numbers to the right."""
        styles = [
            f' style="text-align:{"right" if flush else "left"}"'
            for flush in self._right_aligned()
        ]

        def line(cells: Sequence[str], tag: str, scope: str = "") -> str:
            marked = (
                f"<{tag}{scope}{style}>{html.escape(cell)}</{tag}>"
                for cell, style in zip(cells, styles, strict=True)
            )
            return f"<tr>{''.join(marked)}</tr>"

        caption = f"<caption>{html.escape(self.caption)}</caption>\n"
        head = line(self.header, "th", ' scope="col"')
        body = "\n".join(line(row, "td") for row in self.rows)
        return (
            f"<table>\n{caption if self.caption else ''}"
            f"<thead>\n{head}\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        )


def table(
    rows: Sequence[Mapping[str, Any]], caption: str = "", *, kind: str | None = None
) -> Table:
    """Makes a table from one mapping a row.

    Numbers are formatted by `format_number`, None as a dash (not published), other
    values, such as arrays, by `str` on one line.

    Args:
        rows: The rows, at least one; the keys, the same in all rows, are the header.
        caption: What the table shows, with the units its cells do not carry.
        kind: What its figures are: an item of `KINDS`. The caption then begins with
            it. Name the kind in the column headings if columns differ.

    Returns:
        The table, to be the last value of a cell.

    Raises:
        TypeError: If the rows are not mappings, or a key or the caption is not text.
        ValueError: If there are no rows, their keys differ, the kind is unknown, or a
            number is too large for a float.
    """
    if not isinstance(rows, Sequence) or not all(isinstance(r, Mapping) for r in rows):
        raise TypeError(f"expected a sequence of mappings as rows, got {rows!r}")
    if not isinstance(caption, str):
        raise TypeError(f"expected a caption that is text, got {caption!r}")
    if not rows:
        raise ValueError("expected at least one row, got none")
    if kind is not None and kind not in KINDS:
        raise ValueError(f"expected kind to be one of {KINDS}, got {kind!r}")
    header = tuple(rows[0])
    for key in header:
        if not isinstance(key, str):
            raise TypeError(f"expected column names that are text, got {key!r}")
    for row in rows:
        if tuple(row) != header:
            raise ValueError(
                f"expected the keys {header} in each row, got {tuple(row)}"
            )
    cells = tuple(tuple(_cell(value) for value in row.values()) for row in rows)
    if kind:
        caption = f"{kind.capitalize()}: {caption}" if caption else kind.capitalize()
    return Table(header, cells, caption)


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(python_scalar(value), bool):
        return "yes" if value else "no"
    try:
        return format_number(value)
    except TypeError:
        return re.sub(r"\s*\n\s*", " ", str(value))
