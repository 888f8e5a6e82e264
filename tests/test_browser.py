"""The built site in a real browser, at a desk and on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, BrowserContext, Page, expect

WIDTHS = {"desk": 1280, "phone": 390}
LIMIT_BYTES = 400_000
LIMIT_SHIFT = 0.01
LIMIT_PAINT_MS = 1000
# Kept by the page itself, because a browser forgets entries that nobody observed.
OBSERVE = """
window.seen = { shift: 0, paint: 0 };
new PerformanceObserver(list => list.getEntries().forEach(entry => {
  if (!entry.hadRecentInput) window.seen.shift += entry.value;
})).observe({ type: "layout-shift", buffered: true });
new PerformanceObserver(list => list.getEntries().forEach(entry => {
  window.seen.paint = entry.startTime;
})).observe({ type: "largest-contentful-paint", buffered: true });
"""
# A chapter has thousands of coloured words of code, of a dozen kinds. One of each kind,
# in code and in output, is as good to judge as all of them, in a tenth of the time.
ONE_TOKEN_OF_A_KIND = """
const seen = new Set();
for (const token of document.querySelectorAll("pre span[class]")) {
  const kind = token.className + Boolean(token.closest(".cell_output"));
  if (seen.has(kind)) token.replaceWith(...token.childNodes);
  seen.add(kind);
}
"""
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
# Enough for a late font or script to move something.
SETTLE_MS = 150

Open = Callable[..., Page]


@contextmanager
def opened(browser: Browser, width: int, **options: object) -> Iterator[BrowserContext]:
    """A fresh browser profile of a given width."""
    size = {"width": width, "height": 844}
    # Nothing is caught halfway between two colours.
    calm = {"viewport": size, "reduced_motion": "reduce"}
    context = browser.new_context(**calm, **options)
    context.set_default_timeout(5000)
    try:
        yield context
    finally:
        context.close()


@pytest.fixture(params=WIDTHS.values(), ids=WIDTHS.keys())
def width(request: pytest.FixtureRequest) -> int:
    """Each of the two widths, in CSS pixels."""
    return request.param


@pytest.fixture
def context(browser: Browser, width: int) -> Iterator[BrowserContext]:
    """A fresh profile at each width."""
    with opened(
        browser, width, permissions=["clipboard-read", "clipboard-write"]
    ) as new:
        yield new


@pytest.fixture
def chapter(chapters: list[str]) -> str:
    """The path of a chapter with exercises."""
    return next(path for path in chapters if "/" in path)


@pytest.fixture
def page(context: BrowserContext, address: str, chapter: str) -> Page:
    """The chapter, open."""
    page = context.new_page()
    page.goto(address + chapter)
    return page


def rare_word(pages: dict[str, BeautifulSoup], path: str) -> str:
    """Returns a long word that only one page has in its text."""
    texts = {
        name: {word.lower() for word in re.findall(r"[A-Za-z]{8,}", page.get_text())}
        for name, page in pages.items()
    }
    prose = " ".join(tag.get_text() for tag in pages[path].select("article p"))
    others = set().union(*(words for name, words in texts.items() if name != path))
    words = set(re.findall(r"\b[a-z]{8,}\b", prose)) - others
    assert words, f"no word of {path} is its own"
    return min(words)


def watched(page: Page, address: str) -> list[str]:
    """Returns a list that grows with every complaint of a page's browser."""
    faults: list[str] = []
    host = urlsplit(address).netloc
    page.on(
        "console",
        lambda m: faults.append(m.text) if m.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("requestfailed", lambda request: faults.append(f"failed: {request.url}"))
    page.on(
        "request",
        lambda request: (
            faults.append(f"asks another host: {request.url}")
            if urlsplit(request.url).netloc not in (host, "")
            else None
        ),
    )
    return faults


def first_view(browser: Browser, width: int, address: str, path: str) -> list[str]:
    """Opens a page in a fresh profile and returns what a reader would suffer from."""
    with opened(browser, width) as context:
        page = context.new_page()
        page.add_init_script(OBSERVE)
        faults = watched(page, address)
        sizes: list[int] = []
        session = context.new_cdp_session(page)
        session.on(
            "Network.loadingFinished",
            lambda event: sizes.append(event["encodedDataLength"]),
        )
        session.send("Network.enable")
        page.goto(address + path, wait_until="load")
        page.wait_for_timeout(SETTLE_MS)
        seen = page.evaluate("window.seen")
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if not 0 < sum(sizes) <= LIMIT_BYTES:
        faults.append(f"{sum(sizes)} bytes")
    if seen["shift"] > LIMIT_SHIFT:
        faults.append(f"layout shift {seen['shift']}")
    if not 0 < seen["paint"] < LIMIT_PAINT_MS:
        faults.append(f"largest paint after {seen['paint']} ms")
    if wide > 0:
        faults.append(f"{wide} pixels too wide")
    return faults


def test_every_page_is_quiet_light_and_still(
    browser: Browser, width: int, address: str, pages: dict[str, BeautifulSoup]
) -> None:
    faults = {}
    for path in pages:
        # Other work on the machine can only make a page slower: the best view counts.
        for _attempt in range(3):
            faults[path] = first_view(browser, width, address, path)
            if not faults[path]:
                break
    assert {path: found for path, found in faults.items() if found} == {}


def violations(page: Page, rules: list[str] = WCAG) -> list[str]:
    """Returns the serious violations of accessibility on a page, all boxes open."""
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate(ONE_TOKEN_OF_A_KIND)
    options = {"runOnly": rules, "resultTypes": ["violations"], "preload": False}
    found = Axe().run(page, options=options).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [
        f"{page.url}: {one['id']}: {one['nodes'][0]['failureSummary']}: "
        f"{one['nodes'][0]['html'][:150]}"
        for one in serious
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_accessible(
    browser: Browser, theme: str, address: str, pages: dict[str, BeautifulSoup]
) -> None:
    faults = []
    with opened(browser, WIDTHS["desk"], color_scheme=theme) as context:
        page = context.new_page()
        for path in sorted(pages.keys() - {"index.html"}):
            page.goto(address + path)
            assert page.locator("html").get_attribute("data-theme") == theme
            # A theme changes colours and nothing else.
            faults += violations(page, WCAG if theme == "light" else ["color-contrast"])
    assert faults == []


def test_phone_is_accessible(browser: Browser, address: str) -> None:
    with opened(browser, WIDTHS["phone"]) as context:
        page = context.new_page()
        page.goto(address)
        assert violations(page) == []


def test_reader_turns_pages(page: Page) -> None:
    title = page.title()
    page.locator(".right-next, .left-prev").last.click()
    expect(page).not_to_have_title(title)
    page.go_back()
    expect(page).to_have_title(title)


def test_sidebar_opens_and_closes(page: Page, width: int) -> None:
    links = page.locator(".bd-docs-nav")
    toggle = page.locator(".primary-toggle")
    if width == WIDTHS["desk"]:
        expect(links).to_be_in_viewport()
        toggle.click()
        expect(links).not_to_be_in_viewport()
        toggle.click()
        expect(links).to_be_in_viewport()
    else:
        expect(links).not_to_be_in_viewport()
        toggle.click()
        expect(links).to_be_in_viewport()
        page.keyboard.press("Escape")
        expect(links).not_to_be_in_viewport()


def test_search_finds_the_chapter(
    page: Page, pages: dict[str, BeautifulSoup], chapter: str
) -> None:
    page.locator(".search-button__button:visible").first.click()
    page.keyboard.type(rare_word(pages, chapter))
    page.keyboard.press("Enter")
    found = page.locator("#search-results a").first
    expect(found).to_have_attribute("href", re.compile(re.escape(chapter)))
    found.click()
    expect(page).to_have_url(re.compile(re.escape(chapter)))


def test_theme_changes_colours_and_stays(page: Page) -> None:
    def paper() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    before = paper()
    for _ in range(2):  # auto, then the two themes in turn
        page.locator(".theme-switch-button:visible").click()
        if paper() != before:
            break
    after = paper()
    assert after != before
    page.reload()
    assert paper() == after


def test_copy_button_copies_the_code(page: Page) -> None:
    cell = page.locator(".cell_input").first
    cell.locator("button.copybtn").click()
    expect(cell.locator("button.copybtn.success")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == cell.locator("pre").inner_text().strip()


def test_solutions_open_by_mouse_and_keyboard(page: Page) -> None:
    solution = page.locator("details.solution").first
    content = solution.locator(":scope > :not(summary)").first
    expect(content).not_to_be_visible()
    solution.locator("summary").click()
    expect(content).to_be_visible()
    solution.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(content).not_to_be_visible()


def test_contents_mark_the_section_in_view(page: Page, width: int) -> None:
    if width == WIDTHS["phone"]:
        pytest.skip("the phone shows the contents on demand")
    link = page.locator("#pst-page-toc-nav a").nth(2)
    link.click()
    expect(link).to_have_attribute("aria-current", "true")


def test_keyboard_alone_reaches_content_and_search(page: Page) -> None:
    page.keyboard.press("Tab")
    skip = page.locator("#pst-skip-link a")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    assert page.url.endswith("#main-content")
    inside = "document.activeElement.closest('main') !== null"
    for _ in range(3):
        page.keyboard.press("Tab")
        if page.evaluate(inside):
            break
    assert page.evaluate(inside)
    style = "getComputedStyle(document.activeElement)"
    assert page.evaluate(f"{style}.outlineStyle") != "none"
    assert page.evaluate(f"parseFloat({style}.outlineWidth)") >= 2

    page.keyboard.press("Control+k")
    dialog = page.locator("#pst-search-dialog")
    expect(dialog).to_be_visible()
    expect(dialog.locator("input")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()


def test_chapter_reads_without_javascript(
    browser: Browser, width: int, address: str, chapter: str
) -> None:
    with opened(browser, width, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(address + chapter)
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator(".cell_input pre").first).to_be_visible()
        expect(page.locator(".launch a").first).to_be_visible()
        solution = page.locator("details.solution").first
        solution.locator("summary").click()
        expect(solution.locator(":scope > :not(summary)").first).to_be_visible()
        for button in page.locator("button:visible").all():
            assert "copybtn" not in (button.get_attribute("class") or "")


def test_print_shows_the_chapter_and_nothing_else(page: Page) -> None:
    page.emulate_media(media="print")
    expect(page.locator("h1")).to_be_visible()
    for hidden in (".bd-sidebar-primary", ".bd-header-article", ".launch", ".copybtn"):
        expect(page.locator(hidden).first).not_to_be_visible()
    hidden_part = page.locator("details.solution > :not(summary)").first
    assert hidden_part.evaluate("e => e.getBoundingClientRect().height") > 0
