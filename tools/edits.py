"""Edits of a text by position, and the way from parsed blocks back to positions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from markdown_it.token import Token


@dataclass(frozen=True, order=True)
class Edit:
    """Replace ``text[start:end]`` by ``new``."""

    start: int
    end: int
    new: str


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Carries out edits that do not overlap.

    Args:
        text: The text that the edits' positions refer to.
        edits: In any order.

    Returns:
        The edited text.
    """
    done, pieces = 0, []
    for edit in sorted(edits):
        pieces += [text[done : edit.start], edit.new]
        done = edit.end
    return "".join([*pieces, text[done:]])


@dataclass
class Lines:
    """The lines of a text, and where the parser's blocks lie in it.

    Attributes:
        text: The text that was parsed.
    """

    text: str
    _lines: list[str] = field(init=False)
    _starts: list[int] = field(init=False)
    _cursors: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._lines = self.text.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]

    def block(self, token: Token, new: str) -> Edit:
        """Replaces a fenced block, keeping the list or quote that it stands in.

        Args:
            token: The block, with the markup that opens it.
            new: Any number of lines.

        Returns:
            The edit; it sets the block apart from the text around it.
        """
        begin, end = token.map
        line = self._lines[begin]
        first = line[: line.index(token.markup)]
        prefix = re.sub(r"[^>\s]", " ", first)
        body = [f"{prefix}{row}".rstrip() for row in new.split("\n")]
        body[0] = f"{first}{new.split(chr(10))[0]}".rstrip()
        if first == prefix and begin and self._lines[begin - 1].strip(" >"):
            body.insert(0, prefix.rstrip())
        if end < len(self._lines) and self._lines[end].strip(" >"):
            body.append(prefix.rstrip())
        return Edit(self._starts[begin], self._starts[end] - 1, "\n".join(body))

    def without(self, token: Token) -> Edit:
        """Removes the lines of a block."""
        begin, end = (self._starts[line] for line in token.map)
        return Edit(begin, min(end, len(self.text)), "")

    def description(self, token: Token) -> Edit:
        """Makes a definition the second paragraph of a list item."""
        number = token.map[0]
        # The parser may count the term and blank lines in: look for the marker.
        while not (marked := re.match(r"([\s>]*)[:~]\s", self._lines[number])):
            number += 1
        prefix = marked[1]
        start = self._starts[number]
        return Edit(start, start + len(prefix) + 1, f"{prefix.rstrip()}\n{prefix} ")

    def locate(self, token: Token) -> list[int] | None:
        """Finds where each character of an inline token stands in the text.

        Args:
            token: An ``inline`` token; quotes, indents and the bars of a table are
                not part of its content.

        Returns:
            The position of every character and of the end, or None if the parser
            changed the text, as it does with an escaped bar in a table.
        """
        places: list[int] = []
        for number, row in enumerate(token.content.split("\n"), token.map[0]):
            bare = row.strip()
            column = self._lines[number].find(bare, self._cursors.get(number, 0))
            if column < 0:
                return None
            indent = len(row) - len(row.lstrip())
            start = self._starts[number] + column - indent
            places += range(start, start + len(row) + 1)
            self._cursors[number] = column + len(bare)
        return places
