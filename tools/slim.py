"""Turns Sphinx's output into the site that readers load: light, and self-contained.

Sphinx and the theme write for every site there could be. This module looks at the
pages that exist and keeps what they can use: one stylesheet without the rules that
match nothing, the icons in use as CSS masks instead of a 1.5 MB script, and no file
that no page asks for.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import imagesize
import tinycss2
from tinycss2.ast import AtRule, Node, QualifiedRule

NOTICE = """/*! Rules of sphinx-book-theme, pydata-sphinx-theme and MyST-NB
(BSD-3-Clause) and of Bootstrap, sphinx-design, sphinx-copybutton and sphinx-exercise
(MIT), without those that match nothing here, then this book's own. Icons: Font Awesome
Free by Fonticons, Inc., CC BY 4.0. */
"""
# Source maps, build records, and the theme's templates among its static files.
UNPUBLISHED = shutil.ignore_patterns("*.map", ".*", "*webpack-macros.html", "reports")
OWN_STYLE = "book.css"
STYLESHEET = re.compile(r'<link\b[^>]*rel="stylesheet"[^>]*>\s*')
STATIC_HREF = re.compile(r'href="([^"]*?_static/)([^"?]+)')
IMPORT = re.compile(r"""@import\s+["']([^"':]+)["']\s*;""")
# Values with quotes are left alone: a semicolon in them would not end them.
VARIABLE = re.compile(r"""(?<=[;{\s])(--[\w-]+):[^;{}"']*(?:;|(?=\}))""")
ATTRIBUTE_PART = re.compile(r"""\[class\*=["']?([\w-]+)["']?\]""")
# Names, punctuation and spaces in code have the colour of the text around them.
PLAIN_CODE = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')
TABS_SCRIPT = re.compile(r"<script\b[^>]*design-tabs\.js[^>]*></script>\s*")
FIGURE = re.compile(
    r'<img\b(?![^>]*\bwidth=)([^>]*?src="[^"]*\b(_images/[^"]+)"[^>]*?)/?>'
)
ICON = re.compile(r'class="[^"]*\bfa-(?:solid|regular|brands)[^"]*"')
# Sizes and styles of Font Awesome, as opposed to the name of an icon.
ICON_MODIFIERS = {"solid", "regular", "brands", "lg", "sm", "fw"}
ICON_BASE = (
    ".fa-solid,.fa-brands{display:inline-block;width:1em;height:1em;"
    "vertical-align:-.125em;background:currentColor;"
    "-webkit-mask:var(--icon) center/contain no-repeat;"
    "mask:var(--icon) center/contain no-repeat}"
    # A mask paints the background, which forced colours would replace.
    "@media(forced-colors:active){.fa-solid,.fa-brands"
    "{background:CanvasText;forced-color-adjust:none}}"
)


class _Words(HTMLParser):
    """Collects the tags, classes and ids of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.words: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.words.add(tag)
        for name, value in attrs:
            if name in ("class", "id"):
                self.words.update((value or "").split())


def vocabulary(pages: Iterable[str], scripts: Iterable[str]) -> set[str]:
    """Returns every word that a selector could match now or after a script ran.

    Args:
        pages: The HTML of all pages.
        scripts: The text of all scripts that pages load. Each word in them counts as
            a class that they may set, which keeps too much rather than too little.
    """
    parser = _Words()
    for page in pages:
        parser.feed(page)
    words = parser.words
    for script in scripts:
        words.update(re.findall(r"[A-Za-z_][\w-]*", script))
    return words


def _needs(selector: list[Node]) -> Iterator[str]:
    """Yields the tags, classes and ids that an element must have to match."""
    before = None
    for token in selector:
        if token.type == "ident" and before != ":":
            yield token.value
        elif token.type == "hash":
            yield token.value
        before = token.value if token.type == "literal" else None


def _possible(selector: list[Node], words: set[str]) -> bool:
    """Says whether some element could match, judging by words alone."""
    if not words.issuperset(_needs(selector)):
        return False
    # MyST-NB has a rule for each of 512 terminal colours, as [class*=-C123].
    parts = ATTRIBUTE_PART.findall(tinycss2.serialize(selector))
    return all(any(part in word for word in words) for part in parts)


def _split_at_commas(tokens: list[Node]) -> list[list[Node]]:
    parts: list[list[Node]] = [[]]
    for token in tokens:
        if token.type == "literal" and token.value == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _compact(tokens: Iterable[Node]) -> str:
    text = tinycss2.serialize([token for token in tokens if token.type != "comment"])
    # Whitespace inside strings is never a line break, so this cannot change one.
    return re.sub(r"\s*\n\s*", " ", text).strip()


def read_css(path: Path) -> str:
    """Reads a stylesheet with those that it imports in their place."""
    folder = path.parent
    text = path.read_text(encoding="utf-8")
    return IMPORT.sub(lambda found: read_css(folder / found[1]), text)


def drop_unused_variables(css: str) -> str:
    """Drops the custom properties that no rule reads."""
    used = set(re.findall(r"var\(\s*(--[\w-]+)", css))
    kept = VARIABLE.sub(lambda found: found[0] if found[1] in used else "", css)
    # Those read only by the variables that just went are unused now.
    return css if kept == css else drop_unused_variables(kept)


def prune(css: str, words: set[str]) -> str:
    """Drops the rules that cannot match.

    Args:
        css: A stylesheet.
        words: Everything that a selector could match, from ``vocabulary``.

    Returns:
        The stylesheet without comments, without selectors that need a tag, class or id
        outside ``words``, and without fonts and icon animations, which the theme has
        for its icon script.
    """
    rules = tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True)
    return "\n".join(filter(None, (_pruned(rule, words) for rule in rules)))


def _pruned(rule: Node, words: set[str]) -> str:
    if isinstance(rule, QualifiedRule):
        kept = [
            _compact(selector)
            for selector in _split_at_commas(rule.prelude)
            if _possible(selector, words)
        ]
        body = _compact(rule.content)
        return f"{','.join(kept)}{{{body}}}" if kept and body else ""
    if not isinstance(rule, AtRule):
        raise ValueError(f"expected a CSS rule, got {rule.type} {rule.message!r}")
    spins_icon = rule.lower_at_keyword == "keyframes" and "fa-" in _compact(
        rule.prelude
    )
    if spins_icon or rule.lower_at_keyword in ("font-face", "charset"):
        return ""
    head = f"@{rule.at_keyword} {_compact(rule.prelude)}"
    if rule.content is None:
        return f"{head};"
    body = tinycss2.serialize(rule.content)
    inner = (
        prune(body, words) if rule.lower_at_keyword in ("media", "supports") else body
    )
    return f"{head}{{{inner}}}" if inner.strip() else ""


def icons(script: str, pages: Iterable[str]) -> str:
    """Returns the CSS that draws the icons in use.

    Args:
        script: The theme's Font Awesome script, which holds every icon's outline.
        pages: The HTML of all pages.

    Raises:
        ValueError: If a page uses an icon that the script does not have.
    """
    used = {
        name
        for page in pages
        for tag in ICON.findall(page)
        for name in re.findall(r"\bfa-([a-z0-9-]+)", tag)
    }
    rules = [ICON_BASE]
    for name in sorted(used - ICON_MODIFIERS):
        # "name":[width,height,[other names],"code point","outline"]; when a name is in
        # several styles, the solid one comes last.
        entry = rf'[{{,]"?{re.escape(name)}"?:\[(\d+),(\d+),\[[^\]]*\],"\w+","([^"]+)"'
        outlines = re.findall(entry, script)
        if not outlines:
            raise ValueError(f"expected an icon of Font Awesome Free, got fa-{name}")
        width, height, outline = outlines[-1]
        svg = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}'>"
            f"<path d='{outline}'/></svg>"
        )
        encoded = quote(svg, safe=" =:/'")
        rules.append(f'.fa-{name}{{--icon:url("data:image/svg+xml,{encoded}")}}')
    return "\n".join(rules)


def formula_font(font: Path) -> str:
    """Returns the stylesheet of pages with formulas.

    The font is inside it because a font that arrives later moves the text.
    """
    data = base64.b64encode(font.read_bytes()).decode()
    return (
        '@font-face{font-family:"Book Math";'
        f'src:url("data:font/woff2;base64,{data}")format("woff2")}}\n'
    )


def _write_named(folder: Path, stem: str, css: str) -> str:
    """Writes a stylesheet under a name that changes with its content."""
    name = f"{stem}-{hashlib.sha256(css.encode()).hexdigest()[:10]}.css"
    (folder / name).write_text(css, encoding="utf-8")
    return name


def _stylesheets(pages: Iterable[str]) -> list[str]:
    """Returns the stylesheets of all pages, below ``_static``; the book's own last."""
    names: dict[str, None] = {}
    for page in pages:
        for link in STYLESHEET.findall(page):
            found = STATIC_HREF.search(link)
            if not found:
                raise ValueError(
                    f"expected a stylesheet of the site itself, got {link}"
                )
            names[found[2]] = None
    return sorted(names, key=lambda name: name == OWN_STYLE)


def _sized(page: str, site: Path) -> str:
    """Returns a page whose figures load when needed, in space kept for them."""

    def sized(found: re.Match[str]) -> str:
        width, height = imagesize.get(site / found[2])
        size = f'width="{width}" height="{height}"' if width > 0 else ""
        return f'<img{found[1]} {size} loading="lazy"/>'

    return FIGURE.sub(sized, page)


def _tidied(page: str) -> str:
    """Returns a page without what only weighs on its readers."""
    page = PLAIN_CODE.sub(r"\1", page)
    # Docutils calls this a list but does not call its children list items.
    page = page.replace('role="list" class="citation-list"', 'class="citation-list"')
    return page if "sd-tab-set" in page else TABS_SCRIPT.sub("", page)


def _relinked(page: str, book: str, formulas: str) -> str:
    """Returns a page that loads the given stylesheets instead of its own."""
    first = STYLESHEET.search(page)
    if first is None:
        return page
    prefix = STATIC_HREF.search(first[0])[1]
    names = [book, formulas] if "<math" in page else [book]
    links = "".join(f'<link rel="stylesheet" href="{prefix}{n}" />\n' for n in names)
    rest = STYLESHEET.sub("", page[first.end() :])
    return page[: first.start()] + links + rest


def _drop_unused(site: Path, texts: Iterable[str]) -> None:
    """Removes static files that no page, script or stylesheet names."""
    named = "\n".join(texts)
    for path in sorted((site / "_static").rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name not in named and not re.search(
            "licen[cs]e|OFL", path.name, re.I
        ):
            path.unlink()


def slim(stage: Path, site: Path) -> None:
    """Writes the site.

    Args:
        stage: Sphinx's output, which stays as it is, so that its next run is quick.
        site: The folder to create or replace.
    """
    fresh = site.with_name(f"{site.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(stage, fresh, ignore=UNPUBLISHED)
    static = fresh / "_static"
    pages = {
        path: path.read_text(encoding="utf-8") for path in sorted(fresh.rglob("*.html"))
    }
    script = (static / "scripts/fontawesome.js").read_text(encoding="utf-8")
    for unused in ("scripts/fontawesome.js", "scripts/fontawesome.js.LICENSE.txt"):
        (static / unused).unlink()

    loaded = "\n".join(pages.values())
    scripts = [
        path.read_text(encoding="utf-8")
        for path in static.rglob("*.js")
        if path.name in loaded
    ]
    words = vocabulary(pages.values(), scripts)
    *theirs, own = (
        prune(read_css(static / name), words) for name in _stylesheets(pages.values())
    )
    theirs.append(icons(script, pages.values()))
    # Rules outside a layer win over those inside, however specific the theme's are.
    layers = "@layer theme{" + "\n".join(theirs) + "}\n" + own
    css = NOTICE + drop_unused_variables(layers)
    font = formula_font(static / "fonts/stix-two-math.woff2")
    book, formulas = (
        _write_named(static, "book", css),
        _write_named(static, "formulas", font),
    )
    for path, page in pages.items():
        pages[path] = _relinked(_tidied(_sized(page, fresh)), book, formulas)
        path.write_text(pages[path], encoding="utf-8")
    _drop_unused(fresh, [*pages.values(), *scripts, css])

    redirect = re.search(r"url=([\w./-]+)", pages[fresh / "index.html"])
    if redirect and "<main" not in pages[fresh / "index.html"]:
        shutil.copyfile(fresh / redirect[1], fresh / "index.html")
    shutil.rmtree(site, ignore_errors=True)
    fresh.rename(site)
