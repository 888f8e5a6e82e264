"""Roles, links and images as plain Markdown that points at the published site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import unquote

from myst_syntax import Span
from targets import Target

if TYPE_CHECKING:
    from myst import Converter

_EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_TITLED = re.compile(r"(.+?)\s*<([^<>]+)>", re.DOTALL)
RELATIVE_HTML = re.compile(r"""\b(?:src|href)=["']?(?!https?:|mailto:|data:|#)""")


def replacement(
    span: Span, text: str, line: int, converter: Converter
) -> Iterator[tuple[int, int, str]]:
    """What to put in the place of a role, a link or an image.

    Args:
        span: Where it stands in the text, and what the parser made of it.
        text: Inline MyST.
        line: Its line in the file, from 1, for messages.
        converter: Knows the page and the book.

    Yields:
        Start, end and new text; nothing where the source can stay.

    Raises:
        MystError: If it is unknown or its target does not exist.
    """
    if span.rule == "myst_role":
        name = span.token.meta["name"]
        if name not in ROLES:
            converter.fail(line, f"the exporter does not know the role {{{name}}}")
        yield span.start, span.end, ROLES[name](span.token.content, line, converter)
    elif span.rule == "link":
        yield from _link(span, text, line, converter)
    elif span.rule == "image":
        address = image_address(span.token.attrGet("src"), line, converter)
        yield span.label_end, span.end, _destination(span, address)
    elif span.rule != "html_inline" or RELATIVE_HTML.search(span.token.content):
        converter.fail(line, f"the exporter does not know the construct {span.rule!r}")


def image_address(path: str, line: int, converter: Converter) -> str:
    """Where the site keeps an image of the book.

    Args:
        path: As written on the page.
        line: Its line in the file, from 1.
        converter: Knows the page and the book.

    Returns:
        An absolute address.
    """
    if _EXTERNAL.match(path):
        return path
    place = converter.source.resolve(converter.page, unquote(path))
    if not (converter.source.root / "book" / place).is_file():
        converter.fail(line, f"the image book/{place} does not exist")
    return f"{converter.addresses.site}_images/{posixpath.basename(place)}"


def _destination(span: Span, address: str) -> str:
    title = span.token.attrGet("title")
    return f"]({address}" + (f' "{title}")' if title else ")")


def _link(
    span: Span, text: str, line: int, converter: Converter
) -> Iterator[tuple[int, int, str]]:
    href = unquote(span.token.attrGet("href"))
    if _EXTERNAL.match(href):
        if not text.startswith("](", span.label_end):
            # Its definition may lie in another cell of the notebook.
            yield span.label_end, span.end, _destination(span, href)
        return
    target = _linked(href, line, converter)
    if text.startswith("[]", span.start):
        yield span.start, span.end, _to(target, "", line, converter)
    else:
        yield span.label_end, span.end, _destination(span, _address(target, converter))


def _linked(href: str, line: int, converter: Converter) -> Target:
    """The place that a relative link leads to."""
    targets = converter.source.targets
    path, _, label = href.partition("#")
    if label:
        target = targets.labels.get(label.lower())
    else:
        document = converter.source.resolve(converter.page, path.removesuffix(".md"))
        target = targets.pages.get(document)
    if target is None:
        converter.fail(line, f"the link {href!r} leads to no page or label")
    return target


def _address(target: Target, converter: Converter) -> str:
    page = converter.addresses.page(target.page)
    return f"{page}#{target.anchor}" if target.anchor else page


def _to(target: Target, words: str, line: int, converter: Converter) -> str:
    """A link with the author's words, or with the target's title."""
    if not words and not target.title:
        converter.fail(line, f"{target.anchor!r} has no title: give the link words")
    shown = words or converter.inline(target.title, line)
    return f"[{shown}]({_address(target, converter)})"


def _split(content: str) -> tuple[str, str]:
    """Words and target of a role's content; the words may be missing."""
    match = _TITLED.fullmatch(content)
    return (match[1], match[2]) if match else ("", content)


def _doc(content: str, line: int, converter: Converter) -> str:
    words, path = _split(content)
    page = converter.source.resolve(converter.page, path)
    target = converter.source.targets.pages.get(page)
    if target is None:
        converter.fail(line, f"{{doc}} names {page!r}, which is no page of the book")
    return _to(target, words, line, converter)


def _ref(content: str, line: int, converter: Converter) -> str:
    words, label = _split(content)
    target = converter.source.targets.labels.get(label.lower())
    if target is None:
        converter.fail(line, f"no label {label!r} exists in the book")
    return _to(target, words, line, converter)


def _term(content: str, line: int, converter: Converter) -> str:
    words, term = _split(content)
    target = converter.source.targets.terms.get(term.lower())
    if target is None:
        converter.fail(line, f"the glossary has no term {term!r}")
    return _to(target, words or term, line, converter)


def _works(content: str, line: int, converter: Converter) -> Iterator[list[str]]:
    """Address, authors and year of each work that is cited."""
    targets = converter.source.targets
    for key in re.split(r"\s*,\s*", content.strip()):
        if key not in targets.works or not targets.bibliography:
            converter.fail(line, f"no bibliography of the book lists {key!r}")
        yield [converter.addresses.page(targets.bibliography), *targets.works[key]]


def _cite(content: str, line: int, converter: Converter) -> str:
    works = _works(content, line, converter)
    return f"({'; '.join(f'[{who}, {year}]({page})' for page, who, year in works)})"


def _cite_in_text(content: str, line: int, converter: Converter) -> str:
    works = _works(content, line, converter)
    return ", ".join(f"[{who} ({year})]({page})" for page, who, year in works)


def _abbr(content: str, line: int, converter: Converter) -> str:
    match = re.fullmatch(r"(.+?)\s*\((.+)\)", content)
    if match is None:
        converter.fail(line, f"{{abbr}} wants 'SHORT (long form)', got {content!r}")
    return f'<abbr title="{escape(match[2])}">{escape(match[1])}</abbr>'


def _kbd(content: str, line: int, converter: Converter) -> str:
    return f"<kbd>{escape(content)}</kbd>"


def _math(content: str, line: int, converter: Converter) -> str:
    return f"${content}$"


Role = Callable[[str, int, "Converter"], str]
ROLES: dict[str, Role] = {
    "abbr": _abbr,
    "cite": _cite,
    "cite:p": _cite,
    "cite:t": _cite_in_text,
    "doc": _doc,
    "eq": _ref,
    "kbd": _kbd,
    "math": _math,
    "numref": _ref,
    "ref": _ref,
    "term": _term,
}
