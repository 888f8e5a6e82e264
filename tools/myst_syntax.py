"""Reads MyST: one parser for the book, its directives, and where inline syntax sits.

The parser is the one that builds the site, with the same extensions, so what the
exporter sees is what Sphinx sees. Nothing here knows what a directive means.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import yaml
from docutils.parsers.rst.directives.misc import TestDirective
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.directives import parse_directive_text
from myst_parser.parsers.mdit import create_md_parser

EXTENSIONS = {
    "colon_fence",
    "deflist",
    "dollarmath",
    "linkify",
    "substitution",
    "tasklist",
}
VERBATIM = {"code-cell", "raw-cell", "code-block", "code", "math", "glossary"}
RECORDED = ("myst_role", "link", "image", "html_inline", "footnote_ref")
_NAME = re.compile(r"\{([^}\s]+)\}\s*(.*)", re.DOTALL)


class MystError(ValueError):
    """A construct that cannot be exported, with the file and line that hold it."""


@dataclass(frozen=True)
class Directive:
    """A directive as written.

    Attributes:
        name: What stands between the braces.
        argument: The rest of the opening line.
        options: The ``:key: value`` lines, values as text.
        body: The content below the options.
        line: The line of the opening fence in the file, from 1.
        body_line: The line of the body's first line in the file, from 1.
    """

    name: str
    argument: str
    options: dict[str, str]
    body: str
    line: int
    body_line: int

    @property
    def classes(self) -> list[str]:
        """The words of the ``class`` option."""
        return self.options.get("class", "").split()


@dataclass(frozen=True)
class Span:
    """A stretch of inline source that one rule of the parser consumed.

    Attributes:
        rule: The parser's name of the rule.
        start: Where it begins in the inline source.
        end: Where it ends, exclusive.
        token: The first token that the rule produced.
        label_end: For a link or an image, where the bracket after its text stands.
    """

    rule: str
    start: int
    end: int
    token: Token
    label_end: int


@dataclass(frozen=True)
class _Recorder:
    """Wraps an inline rule so that each success leaves a span behind."""

    name: str
    rule: Callable[[StateInline, bool], bool]

    def __call__(self, state: StateInline, silent: bool) -> bool:
        start, tokens = state.pos, len(state.tokens)
        found = state.env["spans"]
        kept = len(found)
        if not self.rule(state, silent):
            return False
        if not silent:
            if self.name == "image":
                # The alt text is parsed apart: its positions count from its own start.
                del found[kept:]
            token = next(
                t for t in state.tokens[tokens:] if t.type.startswith(self.name)
            )
            end = self._label_end(state, start)
            found.append(Span(self.name, start, state.pos, token, end))
        return True

    def _label_end(self, state: StateInline, start: int) -> int:
        """Finds the bracket that closes the text of a link or an image."""
        if self.name not in ("link", "image"):
            return -1
        image = self.name == "image"
        return state.md.helpers.parseLinkLabel(state, start + image, not image)


def extensions(root: Path) -> set[str]:
    """The MyST extensions that the site's configuration switches on.

    Args:
        root: The book's root, which holds ``_config.yml``.

    Returns:
        Their names.

    Raises:
        MystError: If the exporter does not know one of them.
    """
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    chosen = settings.get("parse", {}).get("myst_enable_extensions")
    if chosen is None:
        package = importlib.util.find_spec("jupyter_book").submodule_search_locations[0]
        defaults = Path(package, "default_config.yml").read_text(encoding="utf-8")
        chosen = yaml.safe_load(defaults)["parse"]["myst_enable_extensions"]
    if unknown := set(chosen) - EXTENSIONS:
        raise MystError(
            f"_config.yml enables the MyST extensions {sorted(unknown)}, "
            f"expected only some of {sorted(EXTENSIONS)}"
        )
    return set(chosen)


def make_parser(enabled: set[str]) -> MarkdownIt:
    """Builds the site's parser, block level only, with its inline rules recorded.

    Args:
        enabled: The MyST extensions to switch on.

    Returns:
        A parser; :func:`spans` runs its inline rules on one piece of text.
    """
    config = MdParserConfig(enable_extensions=enabled, disable_syntax=["inline"])
    parser = create_md_parser(config, RendererHTML)
    rules = {rule.name: rule.fn for rule in parser.inline.ruler.__rules__}
    for name in (*RECORDED, "substitution_inline"):
        if name in rules:
            parser.inline.ruler.at(name, _Recorder(name, rules[name]))
    return parser


def spans(parser: MarkdownIt, text: str, references: dict) -> list[Span]:
    """Finds roles, links, images and raw HTML in one piece of inline source.

    Args:
        parser: From :func:`make_parser`.
        text: The content of a paragraph, heading or table cell.
        references: The link definitions of the page.

    Returns:
        The spans, in the order in which they end.
    """
    found: list[Span] = []
    parser.inline.parse(text, parser, {"references": references, "spans": found}, [])
    return found


def read_directive(token: Token, file: str, line: int) -> Directive | None:
    """Reads a fence as a directive.

    Args:
        token: A block token.
        file: What to call the file in an error.
        line: The line of the parsed text's first line in the file, from 1.

    Returns:
        The directive, or None if the token is an ordinary block.

    Raises:
        MystError: If the options cannot be read.
    """
    if token.type not in ("fence", "colon_fence"):
        return None
    match = _NAME.fullmatch(token.info.strip())
    if match is None:
        return None
    here = line + token.map[0]
    # The one directive whose options the parser takes as written, whatever they are.
    result = parse_directive_text(TestDirective, "", token.content)
    if result.warnings:
        raise MystError(f"{file}:{here}: {result.warnings[0].msg}")
    return Directive(
        name=match[1],
        argument=match[2].strip(),
        options=result.options,
        body="\n".join(result.body),
        line=here,
        body_line=here + 1 + result.body_offset,
    )


def walk(
    parser: MarkdownIt, text: str, env: dict, file: str, line: int = 1
) -> Iterator[tuple[Token, Token | None, Directive | None]]:
    """Visits every block token of a text and of the directives inside it.

    Args:
        parser: From :func:`make_parser`.
        text: MyST source.
        env: Collects what the parser gathers, such as link definitions.
        file: What to call the file in an error.
        line: The line of the text's first line in the file, from 1.

    Yields:
        The token, the one that follows it, and the directive that it is, if any.
    """
    tokens = parser.parse(text + "\n", env)
    for token, following in zip_longest(tokens, tokens[1:]):
        directive = read_directive(token, file, line)
        yield token, following, directive
        if directive and directive.name not in VERBATIM:
            yield from walk(parser, directive.body, env, file, directive.body_line)
