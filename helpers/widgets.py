"""The frame of the book's interactive figures: HTML that needs nothing but itself.

A figure is drawn in Python, as HTML and SVG that read without a script. A script, if
the reader's browser runs it, adds controls and changes what is drawn. So there is one
drawing, it prints as it was left, and the text and the table below it are there for
everyone. No kernel, no other host, no library.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.tables import Table

__all__ = ["DARK", "Fragment", "LIGHT", "companion", "fragment"]

LIGHT = {
    "compute": "#0b6287",
    "memory": "#a8500a",
    "network": "#73489a",
    "right": "#2b6a35",
    "paper": "#fdfdfc",
    "panel": "#f3f5f6",
    "line": "#d5dbdf",
    "ink": "#1b242b",
    "quiet": "#55626c",
}
"""The site's colours on a light page, by the names that styles use: ``var(--ink)``."""

DARK = {
    "compute": "#67bfe0",
    "memory": "#f0a463",
    "network": "#c7a5e8",
    "right": "#86cf92",
    "paper": "#12181c",
    "panel": "#1a2227",
    "line": "#36424a",
    "ink": "#e1e7ea",
    "quiet": "#a3b0b8",
}
"""The same on a dark page."""

# The site, Colab and JupyterLab each say in their own way that a page is dark.
_DARK_PAGES = (
    'html[data-theme="dark"]',
    'html[theme="dark"]',
    'body[data-jp-theme-light="false"]',
)
_THEMED = "html:is([data-theme], [theme]), :has(> body[data-jp-theme-light])"
_SVG_NAMESPACE = "http://www.w3.org/2000/svg"
_REQUEST = re.compile(
    r"https?:|@import|url\((?!#)|src\s*=|fetch\(|XMLHttpRequest", re.I
)
_KIND = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Fragment:
    """An interactive figure: HTML in notebooks and on the site, text elsewhere.

    Attributes:
        id: What tells it from other figures; the same for the same content.
        html: The whole figure.
        text: What it shows, in words.
    """

    id: str
    html: str
    text: str

    def __repr__(self) -> str:
        """Gives the text alternative."""
        return self.text

    def _repr_html_(self) -> str:
        """Gives the figure itself."""
        return self.html


def fragment(
    kind: str,
    data: Any,
    *,
    title: str,
    text: str,
    content: str,
    script: str,
    style: str = "",
    table: Table | None = None,
) -> Fragment:
    """Frames a figure: colours, controls, a status line, and its script.

    The script is the body of a function. It is given ``root`` (the figure's element),
    ``part(name)`` (the element inside it whose ``data-part`` is the name), ``data``,
    ``say(text)`` (writes the status line, which screen readers read out), ``calm``
    (whether the reader wants no motion), and three that add a control and return its
    element: ``choice(label, options, changed)``, ``slider(label, texts, position,
    changed)``, ``button(label, pressed)``. All three work by keyboard and touch.

    Args:
        kind: What sort of figure, in lower case and hyphens: the beginning of its id.
        data: What the script draws from: anything that JSON can hold.
        title: The claim that the figure shows, its visible caption.
        text: What it shows, in words, for those who cannot see it.
        content: The HTML that is there without a script: an SVG, as a rule. Mark what
            the script will change with ``data-part``.
        script: The body of the function.
        style: CSS rules for this figure alone; each selector begins with ``&``, which
            stands for the figure. Colours are ``var(--ink)`` and so on.
        table: The same content as a table, folded below the picture.

    Returns:
        The figure, to be the last value of a cell.

    Raises:
        TypeError: If JSON cannot hold the data.
        ValueError: If the kind is no such name, a text is empty, the script or the
            style would end its element, or anything asks another host.
    """
    if not _KIND.fullmatch(kind):
        raise ValueError(f"expected a kind such as 'roofline', got {kind!r}")
    for name, value in (("title", title), ("text", text), ("content", content)):
        if not value.strip():
            raise ValueError(f"expected {name} to say something, got {value!r}")
    for name, value in (("content", content), ("script", script), ("style", style)):
        _require_self_contained(name, value)
    stored = json.dumps(data, separators=(",", ":"), allow_nan=False)
    parts = [kind, stored, title, text, content, script, style, repr(table)]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
    name = f"{kind}-{digest}"
    frame = companion(__file__, "js").replace("@ID@", name)
    folded = (
        f"<details><summary>The same as a table</summary>{table._repr_html_()}"
        "</details>"
        if table
        else ""
    )
    caption = html.escape(title)
    lines = [
        f'<figure class="book-widget" data-widget="{name}" aria-label="{caption}">',
        f"<style>{_colours(name)}\n{_scoped(name, style)}</style>",
        f"<figcaption>{caption}</figcaption>",
        '<div data-part="controls"></div>',
        f'<div data-part="picture" role="group" aria-label="{html.escape(text)}">',
        f"{content}</div>",
        '<p data-part="status" role="status" aria-live="polite"></p>',
        folded,
        f'<script type="application/json" data-part="data">{_inert(stored)}</script>',
        f"<script>{frame.replace('@SCRIPT@', script)}</script>",
        "</figure>",
    ]
    return Fragment(name, "\n".join(filter(None, lines)), f"{title}\n{text}")


def companion(module_file: str, suffix: str) -> str:
    """Reads the script or the style that lies beside a module, without its comments.

    Args:
        module_file: The module's ``__file__``.
        suffix: ``"js"`` or ``"css"``.

    Returns:
        Its text. Lines that hold a ``//`` comment alone are left out, and so is the
        space that indents lines: readers load it with each page.
    """
    text = Path(module_file).with_suffix(f".{suffix}").read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _require_self_contained(name: str, text: str) -> None:
    if re.search(r"</(script|style)", text, re.I):
        raise ValueError(f"expected {name} without an end tag of script or style")
    found = _REQUEST.search(text.replace(_SVG_NAMESPACE, ""))
    if found:
        raise ValueError(
            f"expected {name} to ask no other host for anything, got {found[0]!r}"
        )


def _inert(stored: str) -> str:
    """Keeps JSON from ending its script element."""
    return stored.replace("<", "\\u003c")


def _colours(name: str) -> str:
    """The palette: light, unless the page, or else the system, is dark.

    What is printed is light.
    """

    def rule(selector: str, colours: Mapping[str, str]) -> str:
        values = "".join(f"--{key}:{value};" for key, value in colours.items())
        return f"{selector}{{{values}}}"

    figure = f'[data-widget="{name}"]'
    dark = ", ".join(f"{page} {figure}" for page in _DARK_PAGES)
    by_system = f":root:not({_THEMED}) {figure}"
    return "\n".join(
        [
            rule(figure, LIGHT),
            f"@media screen{{{rule(dark, DARK)}}}",
            f"@media screen and (prefers-color-scheme:dark){{{rule(by_system, DARK)}}}",
        ]
    )


def _scoped(name: str, style: str) -> str:
    """Makes rules that hold for one figure alone.

    Selectors are written out rather than nested: browsers before 2023 do not nest.
    """
    rules = f"{companion(__file__, 'css')}\n{style}"
    return rules.replace("&", f'[data-widget="{name}"]')
