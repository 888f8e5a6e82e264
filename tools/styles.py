"""Stylesheets cut down to what a site's pages can use, and icons drawn with CSS."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import tinycss2
from tinycss2.ast import AtRule, Node, QualifiedRule

IMPORT = re.compile(r"""@import\s+["']([^"':]+)["']\s*;""")
# Values with quotes are left alone: a semicolon in them would not end them.
VARIABLE = re.compile(r"""(?<=[;{\s])(--[\w-]+):[^;{}"']*(?:;|(?=\}))""")
ATTRIBUTE_PART = re.compile(r"""\[class\*=["']?([\w-]+)["']?\]""")
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


def compact(css: str) -> str:
    """Takes the spaces out that stand between a declaration's parts.

    Args:
        css: A stylesheet as this module writes it, without comments or strings in
            which a semicolon stands before something like a declaration.

    Returns:
        The same rules in fewer bytes.
    """
    css = re.sub(r"([{;])\s*([-\w]+):\s+", r"\1\2:", css)
    return re.sub(r";\s*}", "}", css)


def formula_font(font: Path) -> str:
    """Returns the stylesheet of pages with formulas.

    The font is inside it because a font that arrives later moves the text.
    """
    data = base64.b64encode(font.read_bytes()).decode()
    return (
        '@font-face{font-family:"Book Math";'
        f'src:url("data:font/woff2;base64,{data}")format("woff2")}}\n'
    )
