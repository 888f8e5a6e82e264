"""What a cross-reference can point at: pages, labels, terms and cited works."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import yaml
from docutils.nodes import make_id
from markdown_it import MarkdownIt
from markdown_it.token import Token
from myst_syntax import Directive, extensions, make_parser, walk
from pybtex.database import Entry, parse_file
from pybtex.richtext import Text
from sphinx_external_toc.parsing import parse_toc_yaml


@dataclass(frozen=True)
class Target:
    """A place in the book.

    Attributes:
        page: The document, such as ``functions/state``.
        anchor: The fragment on the site; empty for the page itself.
        title: The heading, caption or number that names it, as MyST.
    """

    page: str
    anchor: str
    title: str


@dataclass
class Targets:
    """Every place of the book, by what a chapter calls it.

    Attributes:
        pages: Documents in the order of the table of contents.
        labels: ``(label)=``, ``:name:`` and ``:label:``, lower case.
        terms: Glossary terms, lower case.
        works: Author and year of each key of the bibliography.
        bibliography: The document that lists the works, if there is one.
        references: For each page, the Markdown link definitions in it.
        chapters: The documents that are notebooks.
    """

    pages: dict[str, Target] = field(default_factory=dict)
    labels: dict[str, Target] = field(default_factory=dict)
    terms: dict[str, Target] = field(default_factory=dict)
    works: dict[str, tuple[str, str]] = field(default_factory=dict)
    bibliography: str = ""
    references: dict[str, dict] = field(default_factory=dict)
    chapters: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Source:
    """The hand-written book.

    Attributes:
        root: The folder that holds ``_config.yml``, ``_toc.yml`` and ``book/``.
    """

    root: Path

    @cached_property
    def parser(self) -> MarkdownIt:
        """The parser with the site's extensions."""
        return make_parser(extensions(self.root))

    @cached_property
    def targets(self) -> Targets:
        """Every place of the book; each page is read once."""
        targets = Targets(works=_works(self.root / "book/references.bib"))
        for page in parse_toc_yaml(self.root / "_toc.yml"):
            _scan(self, str(page), targets)
        return targets

    def path(self, page: str) -> Path:
        """The file of a page."""
        return self.root / "book" / f"{page}.md"

    def file(self, page: str) -> str:
        """What messages call the file of a page."""
        return f"book/{page}.md"

    def text(self, page: str) -> str:
        """The source of a page.

        Raises:
            ValueError: If the table of contents names a page that has no file.
        """
        path = self.path(page)
        if not path.is_file():
            raise ValueError(
                f"_toc.yml names {page!r} but {self.file(page)} is missing"
            )
        return path.read_text(encoding="utf-8")

    def resolve(self, page: str, path: str) -> str:
        """The book path that a link written on a page leads to."""
        if path.startswith("/"):
            return posixpath.normpath(path[1:])
        return posixpath.normpath(posixpath.join(posixpath.dirname(page), path))


@dataclass
class _Scan:
    """Collects what one page defines.

    Attributes:
        page: The document.
        targets: Where its places are recorded.
        pending: Labels that await the block that they name.
        equations: How many labelled equations have been met.
    """

    page: str
    targets: Targets
    pending: list[str] = field(default_factory=list)
    equations: int = 0

    def block(self, token: Token, following: Token | None) -> None:
        """Takes in a block that is not a directive."""
        if token.type == "front_matter":
            if "kernelspec" in yaml.safe_load(token.content):
                self.targets.chapters.append(self.page)
        elif token.type == "myst_target":
            self.pending.append(token.content)
        elif token.type == "math_block_label":
            self.equation(token.info)
        elif token.type == "heading_open":
            self.targets.pages.setdefault(
                self.page, Target(self.page, "", following.content)
            )
            self.name(following.content)
        elif token.type.endswith("_open"):
            self.name("")

    def directive(self, directive: Directive, parser: MarkdownIt) -> None:
        """Takes in a directive."""
        if directive.name == "math":
            if "label" in directive.options:
                self.equation(directive.options["label"])
            return
        options = directive.options
        self.pending += [options[o] for o in ("name", "label") if o in options]
        self.name(_title(directive, parser))
        if directive.name == "bibliography":
            self.targets.bibliography = self.page
        elif directive.name == "glossary":
            for term in _terms(directive.body):
                place = Target(self.page, _term_anchor(term), term)
                self.targets.terms[term.lower()] = place

    def name(self, title: str) -> None:
        """Gives the pending labels to the block at hand."""
        for label in self.pending:
            place = Target(self.page, make_id(label), title)
            self.targets.labels[label.lower()] = place
        self.pending.clear()

    def equation(self, label: str) -> None:
        """Records an equation under the number that Sphinx gives it on its page."""
        self.equations += 1
        anchor = make_id(f"equation-{label}")
        place = Target(self.page, anchor, f"({self.equations})")
        self.targets.labels[label.lower()] = place


def _scan(source: Source, page: str, targets: Targets) -> None:
    """Adds everything that one page defines to the targets."""
    env: dict = {}
    scan = _Scan(page, targets)
    visit = walk(source.parser, source.text(page), env, source.file(page))
    for token, following, directive in visit:
        if directive:
            scan.directive(directive, source.parser)
        else:
            scan.block(token, following)
    targets.references[page] = env.get("references", {})


def _title(directive: Directive, parser: MarkdownIt) -> str:
    """What a reference without words of its own says of a directive."""
    if directive.name == "figure":
        tokens = parser.parse(directive.body)
        return next((t.content for t in tokens if t.type == "inline"), "")
    if directive.name.startswith("exercise"):
        return directive.argument or "Exercise"
    return directive.argument


def _terms(body: str) -> Iterator[str]:
    """The terms of a glossary: its lines that are not indented."""
    for line in body.splitlines():
        if line.strip() and not line[0].isspace():
            yield line.split(" : ")[0].strip()


def _term_anchor(term: str) -> str:
    """The fragment of a term; unlike other fragments it keeps its capitals."""
    return "term-" + re.sub(r"[^a-zA-Z0-9._]+", "-", term).strip("-")


def _works(path: Path) -> dict[str, tuple[str, str]]:
    """Reads author and year of every work; no file, no works."""
    if not path.is_file():
        return {}
    entries = parse_file(str(path)).entries
    return {
        key: (_authors(e), e.fields.get("year", "n.d.")) for key, e in entries.items()
    }


def _authors(entry: Entry) -> str:
    """Last names as a citation in running text gives them."""
    people = entry.persons.get("author") or entry.persons.get("editor") or []
    names = [
        str(Text.from_latex(" ".join(p.prelast_names + p.last_names))) for p in people
    ]
    if not names:
        return str(Text.from_latex(entry.fields["title"]))
    if len(names) > 2:
        return f"{names[0]} et al."
    return " and ".join(names)
