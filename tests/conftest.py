"""What several tests share: the tools, the built site, a server of it, a browser."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parent.parent
# At the end: tools/site.py must not stand before the standard library's module.
sys.path.append(str(ROOT / "tools"))

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def site_tool() -> ModuleType:
    """``tools/site.py``, whose name the standard library has already taken."""
    spec = importlib.util.spec_from_file_location("book_site", ROOT / "tools/site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def site(site_tool: ModuleType) -> Path:
    """The folder of the built site, brought up to date."""
    return site_tool.build(ROOT)


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[str, BeautifulSoup]:
    """Every page of the built site, parsed, by its path below the site."""
    return {
        path.relative_to(site).as_posix(): BeautifulSoup(
            path.read_text(encoding="utf-8"), "html.parser"
        )
        for path in sorted(site.rglob("*.html"))
    }


@pytest.fixture(scope="session")
def chapters(pages: dict[str, BeautifulSoup]) -> list[str]:
    """The paths of the pages that have a notebook, and so a row of links to it."""
    found = [path for path, page in pages.items() if page.select_one(".launch")]
    return [path for path in found if path != "index.html"]


@pytest.fixture(scope="session")
def address(site: Path, site_tool: ModuleType) -> Iterator[str]:
    """The address at which the built site is served, with a trailing slash."""
    web = site_tool.server(site)
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{web.server_port}/"
    web.shutdown()
    thread.join()
    web.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """An installed Chromium; without one, browser tests are skipped, or fail in CI."""
    found = os.environ.get("CHROMIUM") or next(
        filter(None, map(shutil.which, BROWSERS)), ""
    )
    if not found:
        missing = "no Chromium on the PATH (set CHROMIUM to one)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=BROWSER_FLAGS)
        yield chromium
        chromium.close()
