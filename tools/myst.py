"""Turns MyST into the Markdown that Colab, Kaggle and Jupyter show well.

Prose stays byte for byte as written; only what these viewers do not know is replaced,
at the places where the site's own parser finds it. Directives become block quotes,
folds or plain Markdown, cross-references become links to the published site.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from addresses import Addresses
from edits import Edit, Lines, apply
from markdown_it.token import Token
from myst_directives import DIRECTIVES, display, fold
from myst_inline import RELATIVE_HTML, replacement
from myst_syntax import Directive, MystError, read_directive, spans
from targets import Source

KEPT = frozenset(
    "paragraph heading bullet_list ordered_list list_item table thead tbody tr th td "
    "blockquote hr fence code_block math_block html_block dl dt".split()
)


@dataclass
class Converter:
    """Converts the Markdown cells of one page, in order.

    Attributes:
        source: The hand-written book.
        addresses: Where the book is published.
        page: The document, such as ``functions/state``.
        solution: The title of the gated solution that is open, if one is.
        folded: Whether that solution waits for the reader to unfold it.
    """

    source: Source
    addresses: Addresses
    page: str
    solution: str = ""
    folded: bool = False

    def cell(self, text: str, line: int) -> str:
        """Converts one Markdown cell.

        Args:
            text: MyST source.
            line: The line of its first line in the page's file, from 1.

        Returns:
            Markdown; empty if nothing is left to show.

        Raises:
            MystError: At a construct that these viewers cannot be given.
        """
        shown = []
        for gate, segment, at in self._segments(text, line):
            if gate:
                self._pass(gate)
            body = self.convert(segment, at).strip("\n")
            if self.folded and body:
                body = fold(self.solution, body)
            elif gate and self.solution:
                body = f"**{self.solution}**\n\n{body}"
            shown.append(body.strip("\n"))
        return "\n\n".join(piece for piece in shown if piece)

    def convert(self, text: str, line: int) -> str:
        """Converts a stretch of MyST, such as a directive's body.

        Args:
            text: MyST source.
            line: The line of its first line in the page's file, from 1.

        Returns:
            Markdown.
        """
        lines = Lines(text)
        edits: list[Edit] = []
        previous = ""
        for token in self._parse(text):
            directive = self._read(token, line)
            if directive:
                edits.append(lines.block(token, self._directive(directive)))
            elif token.type == "inline":
                edits += self._text(token, lines, line, term=previous == "dt_open")
            else:
                edits += self._block(token, lines, line)
            previous = token.type
        return apply(text, edits)

    def inline(self, text: str, line: int) -> str:
        """Converts inline MyST, such as a title.

        Args:
            text: MyST source without blocks.
            line: The line where it is used, from 1, for messages.

        Returns:
            Markdown.
        """
        return apply(text, self._replacements(text, line))

    def solution_title(self, directive: Directive) -> str:
        """Names a solution after the exercise that its argument points at."""
        exercise = self.source.targets.labels.get(directive.argument.lower())
        if exercise is None:
            self.fail(
                directive.line, f"no exercise has the label {directive.argument!r}"
            )
        return f"Solution: {self.inline(exercise.title, directive.line)}"

    def fail(self, line: int, message: str) -> NoReturn:
        """Raises an error that names the file and the line."""
        raise MystError(f"{self.source.file(self.page)}:{line}: {message}")

    def _parse(self, text: str) -> list[Token]:
        return self.source.parser.parse(text + "\n")

    def _read(self, token: Token, line: int) -> Directive | None:
        return read_directive(token, self.source.file(self.page), line)

    def _segments(
        self, text: str, line: int
    ) -> Iterator[tuple[Directive | None, str, int]]:
        """Splits a cell at the gates that open and close a solution."""
        lines = text.split("\n")
        gate, begin = None, 0
        for token in self._parse(text):
            directive = self._read(token, line)
            if directive and directive.name in ("solution-start", "solution-end"):
                before = "\n".join(lines[begin : token.map[0]])
                yield gate, before, line + begin
                gate, begin = directive, token.map[1]
        yield gate, "\n".join(lines[begin:]), line + begin

    def _pass(self, gate: Directive) -> None:
        """Opens or closes a solution."""
        opens = gate.name == "solution-start"
        self.solution = self.solution_title(gate) if opens else ""
        self.folded = opens and "dropdown" in gate.classes

    def _directive(self, directive: Directive) -> str:
        handler = DIRECTIVES.get(directive.name)
        if handler is None:
            name = f"{{{directive.name}}}"
            self.fail(
                directive.line, f"the exporter does not know the directive {name}"
            )
        return handler(directive, self)

    def _block(self, token: Token, lines: Lines, line: int) -> list[Edit]:
        """The edits of a block that is neither a directive nor text."""
        kind = token.type.removesuffix("_open").removesuffix("_close")
        if kind in ("myst_target", "myst_line_comment"):
            return [lines.without(token)]
        if kind == "dd":
            return [lines.description(token)] if token.nesting > 0 else []
        if kind == "math_block_label":
            formula = display(token.content.strip(), token.info, self)
            return [lines.block(token, formula)]
        relative = kind == "html_block" and RELATIVE_HTML.search(token.content)
        if kind not in KEPT or relative:
            where = line + (token.map[0] if token.map else 0)
            self.fail(where, f"the exporter does not know the construct {kind!r}")
        return []

    def _text(
        self, token: Token, lines: Lines, line: int, term: bool
    ) -> Iterator[Edit]:
        """The edits of a paragraph, a heading, a table's cell or a defined term."""
        first = line + token.map[0]
        found = list(self._replacements(token.content, first))
        places = lines.locate(token)
        if places is None:
            if found or term:
                self.fail(first, "cannot find this text again in the source")
            return
        if term:
            mark = "" if token.content.startswith("**") else "**"
            yield Edit(places[0], places[0], f"- {mark}")
            yield Edit(places[-1], places[-1], mark)
        for edit in found:
            yield Edit(places[edit.start], places[edit.end], edit.new)

    def _replacements(self, text: str, line: int) -> Iterator[Edit]:
        references = self.source.targets.references[self.page]
        for span in spans(self.source.parser, text, references):
            at = line + text.count("\n", 0, span.start)
            for start, end, new in replacement(span, text, at, self):
                yield Edit(start, end, new)
