"""Turns Sphinx's output into the site that readers load: light, and self-contained.

Sphinx and the theme write for every site there could be. This module looks at the
pages that exist and keeps what they can use: one stylesheet without the rules that
match nothing, the icons in use as CSS masks instead of a 1.5 MB script, and no file
that no page asks for.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import imagesize
import styles
from PIL import Image

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
# Names, numbers, operators, punctuation and spaces are most spans of highlighted code
# and a fifth of a page; they keep the colour of the text around them. So do the words
# of code in a sentence.
PLAIN_CODE = re.compile(
    r'<span class="(?:n|o|p|w|mi|mf|nn|ow|pre|sa|si)">([^<]*)</span>'
)
# Pygments begins a block so for the sake of a first line that is empty.
EMPTY_START = re.compile(r"<pre><span></span>(?!\n)")
# Bootstrap's layout, which MyST-NB's own styles then undo.
CONTAINER = re.compile(r'(<div class="cell_(?:input|output)) docutils container"')
TABS_SCRIPT = re.compile(r"<script\b[^>]*design-tabs\.js[^>]*></script>\s*")
FIGURE = re.compile(
    r'<img\b(?![^>]*\bwidth=)([^>]*?src="[^"]*\b(_images/[^"]+)"[^>]*?)/?>'
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


def _lighten(picture: Path) -> None:
    """Rewrites a PNG with a palette, if that is smaller: charts have few colours."""
    lighter = picture.with_suffix(".lighter")
    with Image.open(picture) as image:
        if image.convert("RGBA").getextrema()[3] != (255, 255):
            return  # a palette would lose what is transparent
        palette = image.convert("RGB").quantize(128, dither=Image.Dither.NONE)
        palette.save(lighter, format="PNG", optimize=True)
    if lighter.stat().st_size < picture.stat().st_size:
        lighter.replace(picture)
    else:
        lighter.unlink()


def _tidied(page: str) -> str:
    """Returns a page without what only weighs on its readers."""
    page = PLAIN_CODE.sub(r"\1", page)
    page = EMPTY_START.sub("<pre>", page)
    page = CONTAINER.sub(r'\1"', page)
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
        elif path.name not in named and path.name != "OFL.txt":
            path.unlink()


def _loaded_scripts(site: Path, pages: Iterable[str]) -> list[str]:
    """Returns the text of every script that some page loads."""
    loaded = "\n".join(pages)
    paths = (site / "_static").rglob("*.js")
    return [path.read_text("utf-8") for path in paths if path.name in loaded]


def _write_styles(static: Path, pages: Iterable[str], words: set[str]) -> str:
    """Writes the one stylesheet of all pages and returns its name.

    Args:
        static: The folder with the stylesheets, and scripts, of Sphinx and the theme.
        pages: The HTML of all pages.
        words: Everything that a selector could match.
    """
    *theirs, own = (
        styles.prune(styles.read_css(static / name), words)
        for name in _stylesheets(pages)
    )
    outlines = static / "scripts/fontawesome.js"
    theirs.append(styles.icons(outlines.read_text("utf-8"), pages))
    # Rules outside a layer win over those inside, however specific the theme's are.
    layers = "@layer theme{" + "\n".join(theirs) + "}\n" + own
    layers = styles.compact(layers)
    return _write_named(static, "book", NOTICE + styles.drop_unused_variables(layers))


def _publish(fresh: Path, site: Path) -> None:
    """Puts a new site in the place of the old one."""
    old = site.with_name(f"{site.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    # Two renames, so that a server of the old site misses it for an instant only.
    if site.exists():
        site.rename(old)
    fresh.rename(site)
    shutil.rmtree(old, ignore_errors=True)


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
    pages = {path: path.read_text("utf-8") for path in sorted(fresh.rglob("*.html"))}

    scripts = _loaded_scripts(fresh, pages.values())
    words = styles.vocabulary(pages.values(), scripts)
    book = _write_styles(static, pages.values(), words)
    font = styles.formula_font(static / "fonts/stix-two-math.woff2")
    formulas = _write_named(static, "formulas", font)

    for path, page in pages.items():
        pages[path] = _relinked(_tidied(_sized(page, fresh)), book, formulas)
        path.write_text(pages[path], encoding="utf-8")
    css = (static / book).read_text("utf-8")
    _drop_unused(fresh, [*pages.values(), *scripts, css])
    for picture in fresh.glob("_images/*.png"):
        _lighten(picture)

    # A first page of another name has only a redirection at the root.
    root = fresh / "index.html"
    redirection = re.search(r"url=([\w./-]+)", pages[root])
    if redirection and "<main" not in pages[root]:
        shutil.copyfile(fresh / redirection[1], root)
    _publish(fresh, site)
