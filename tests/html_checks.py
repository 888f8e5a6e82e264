"""Checks of built pages; each returns what is wrong, in words, or nothing."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path, PurePosixPath
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

# What a browser fetches without being asked. An <a> waits for its reader.
FETCHED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
    "use": "href",
    "image": "href",
}
FETCHING_LINKS = {
    "stylesheet",
    "preload",
    "prefetch",
    "modulepreload",
    "preconnect",
    "dns-prefetch",
    "icon",
    "apple-touch-icon",
    "manifest",
}
CSS_ADDRESS = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s;]+)""")


def fetched(page: BeautifulSoup) -> list[str]:
    """Returns the addresses that a browser fetches to show a page."""
    found = [
        tag[name]
        for kind, name in FETCHED.items()
        for tag in page(kind)
        if tag.get(name)
    ]
    for link in page("link"):
        if FETCHING_LINKS & set(link.get("rel", [])):
            found.append(link["href"])
    styles = [tag.get_text() for tag in page("style")]
    styles += [tag["style"] for tag in page(style=True)]
    return found + [address for text in styles for address in CSS_ADDRESS.findall(text)]


def external(addresses: list[str]) -> list[str]:
    """Returns those of some addresses that another host would answer."""
    parts = {address: urlsplit(address) for address in addresses}
    return [
        a for a, part in parts.items() if part.netloc or part.scheme not in ("", "data")
    ]


def resolved(address: str, path: str, prefix: str = "/") -> str:
    """Returns the file, below the site, that a relative address on a page means.

    Args:
        address: The address, without scheme and host.
        path: The path of the page below the site.
        prefix: The path of the published site, with which absolute ones begin.
    """
    target = unquote(urlsplit(address).path)
    if not target:
        return path
    if target.startswith("/"):
        target = target.removeprefix(prefix).lstrip("/")
    else:
        target = str(PurePosixPath(path).parent / target)
    return normpath(target)


def dead_links(
    path: str, pages: dict[str, BeautifulSoup], site: Path, prefix: str = "/"
) -> list[str]:
    """Returns the links of a page that lead to no file or no anchor of the site."""
    faults = []
    for link in pages[path]("a", href=True):
        href = link["href"]
        part = urlsplit(href)
        if part.scheme or part.netloc:
            continue
        target = resolved(href, path, prefix)
        if not (site / target).is_file():
            faults.append(f"{path}: {href} leads to no file")
        elif part.fragment and target in pages:
            if pages[target].find(id=unquote(part.fragment)) is None:
                faults.append(f"{path}: {href} leads to no anchor")
    return faults


def missing_alt(page: BeautifulSoup) -> list[str]:
    """Returns the images that a blind reader would learn nothing from."""
    bare = [tag for tag in page("img") if tag.get("alt") is None]
    bare += [tag for tag in page.select("article img") if tag.get("alt") == ""]
    return [tag.get("src", "") for tag in bare]


def structure(page: BeautifulSoup) -> list[str]:
    """Returns the faults of a page's outline: title, heading, language, ids."""
    faults = []
    if not (page.title and page.title.get_text(strip=True)):
        faults.append("no title")
    if len(page("h1")) != 1:
        faults.append(f"expected one h1, got {len(page('h1'))}")
    if page.html.get("lang") != "en":
        faults.append(f"expected lang en, got {page.html.get('lang')!r}")
    levels = [int(tag.name[1]) for tag in page.select("article :is(h1,h2,h3,h4,h5,h6)")]
    steps = zip(levels, levels[1:], strict=False)
    faults += [f"h{a} is followed by h{b}" for a, b in steps if b > a + 1]
    counts = Counter(tag["id"] for tag in page(id=True))
    return faults + [
        f"id {name!r} occurs {n} times" for name, n in counts.items() if n > 1
    ]


def weight(path: str, page: BeautifulSoup, site: Path, prefix: str = "/") -> int:
    """Returns the bytes that a first view of a page loads, without compression.

    A lazy image waits until its reader comes near and does not count.
    """
    lazy = {tag["src"] for tag in page("img", loading="lazy")}
    files = {path} | {
        resolved(address, path, prefix)
        for address in fetched(page)
        if address not in lazy and not address.startswith("data:")
    }
    return sum((site / name).stat().st_size for name in files)
