"""The built site, page by page, and the tools that build it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit
from xml.etree import ElementTree

import addresses
import formulas
import html_checks as checks
import pytest
import slim
import styles
from bs4 import BeautifulSoup
from conftest import ROOT
from PIL import Image, ImageChops, ImageDraw

BOOK = addresses.load()
PREFIX = urlsplit(BOOK.site).path
LIMIT_BYTES = 400_000


def parsed(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


# The pages


def test_site_executed_no_chapter(site: Path) -> None:
    report = json.loads((site.parent / "site.json").read_text(encoding="utf-8"))
    assert report["executed"] == []


def test_pages_fetch_nothing_from_other_hosts(pages: dict[str, BeautifulSoup]) -> None:
    asked = {
        path: checks.external(checks.fetched(page)) for path, page in pages.items()
    }
    assert {path: found for path, found in asked.items() if found} == {}


def test_styles_fetch_nothing_from_other_hosts(site: Path) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert checks.external(checks.CSS_ADDRESS.findall(text)) == []


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="preconnect" href="https://fonts.example">',
        '<link rel="stylesheet" href="//cdn.example/x.css">',
        '<img src="http://img.example/x.png" alt="x">',
        "<style>@import 'https://fonts.example/css';</style>",
        '<p style="background: url(https://img.example/x.png)">x</p>',
    ],
)
def test_external_check_sees_each_way_out(html: str) -> None:
    assert checks.external(checks.fetched(parsed(html)))


def test_external_check_allows_links_and_own_files() -> None:
    html = '<a href="https://jax.dev">x</a><img src="../x.png"><img src="data:,">'
    assert checks.external(checks.fetched(parsed(html))) == []


def test_links_and_anchors_resolve(pages: dict[str, BeautifulSoup], site: Path) -> None:
    dead = [f for path in pages for f in checks.dead_links(path, pages, site, PREFIX)]
    assert dead == []


def test_link_check_sees_missing_files_and_anchors(tmp_path: Path) -> None:
    links = '<a href="b.html">1</a><a href="#no">2</a><a href="a.html#yes">3</a>'
    (tmp_path / "a.html").touch()
    pages = {"a.html": parsed(f'{links}<p id="yes">')}
    assert checks.dead_links("a.html", pages, tmp_path) == [
        "a.html: b.html leads to no file",
        "a.html: #no leads to no anchor",
    ]


def test_images_have_alternative_text(pages: dict[str, BeautifulSoup]) -> None:
    bare = {path: checks.missing_alt(page) for path, page in pages.items()}
    assert {path: found for path, found in bare.items() if found} == {}


@pytest.mark.parametrize("image", ['<img src="x">', '<img src="x" alt="">'])
def test_alt_check_sees_a_bare_image(image: str) -> None:
    assert checks.missing_alt(parsed(f"<article>{image}</article>")) == ["x"]


def test_pages_have_a_sound_outline(pages: dict[str, BeautifulSoup]) -> None:
    faults = {path: checks.structure(page) for path, page in pages.items()}
    assert {path: found for path, found in faults.items() if found} == {}


def test_titles_differ(pages: dict[str, BeautifulSoup]) -> None:
    titles = [p.title.get_text() for path, p in pages.items() if path != "index.html"]
    assert sorted(set(titles)) == sorted(titles)


def test_pages_are_light(pages: dict[str, BeautifulSoup], site: Path) -> None:
    weights = {path: checks.weight(path, p, site, PREFIX) for path, p in pages.items()}
    heavy = {path: size for path, size in weights.items() if size > LIMIT_BYTES}
    assert heavy == {}


def test_pages_show_no_path_of_this_machine(site: Path) -> None:
    places = {str(ROOT), str(Path.home()), sys.prefix, "site-packages"} - {"/"}
    text = "".join(
        path.read_text(encoding="utf-8")
        for pattern in ("*.html", "searchindex.js", "*.ipynb")
        for path in site.rglob(pattern)
    )
    assert [place for place in places if place in text] == []


def test_sitemap_names_the_pages_that_readers_look_for(
    pages: dict[str, BeautifulSoup], site: Path
) -> None:
    locations = ElementTree.parse(site / "sitemap.xml").iterfind(".//{*}loc")
    listed = {element.text for element in locations}
    hidden = {"404.html", "search.html", "index.html"}
    assert listed == {BOOK.site + path for path in pages if path not in hidden}


def test_pages_have_cards_and_canonical_addresses(
    pages: dict[str, BeautifulSoup], site: Path
) -> None:
    for path, page in pages.items():
        if path in ("404.html", "search.html", "index.html"):
            continue
        cards = {tag["property"]: tag["content"] for tag in page("meta", property=True)}
        assert cards["og:url"] == BOOK.site + path
        assert cards["og:title"] and cards["og:description"]
        image = cards["og:image"].removeprefix(BOOK.site)
        assert (site / image).is_file()
        assert page.find("link", rel="canonical")["href"] == BOOK.site + path


def test_first_page_is_at_the_root(pages: dict[str, BeautifulSoup]) -> None:
    assert pages["index.html"].select_one("main h1")


def test_lost_page_works_from_any_depth(pages: dict[str, BeautifulSoup]) -> None:
    lost = pages["404.html"]
    own = [a for a in checks.fetched(lost) if not a.startswith("data:")]
    own += [link["href"] for link in lost.select("article a, nav a")]
    assert [a for a in own if not a.startswith((PREFIX, "#"))] == []


def test_chapters_launch_their_notebook(
    pages: dict[str, BeautifulSoup], chapters: list[str], site: Path
) -> None:
    assert chapters
    for path in chapters:
        chapter = path.removesuffix(".html")
        colab, kaggle, notebook = (a["href"] for a in pages[path].select(".launch a"))
        assert (colab, kaggle) == (BOOK.colab(chapter), BOOK.kaggle(chapter))
        served = site / checks.resolved(notebook, path)
        assert served.read_bytes() == (ROOT / BOOK.notebook(chapter)).read_bytes()


def test_solutions_are_details(
    pages: dict[str, BeautifulSoup], chapters: list[str]
) -> None:
    for path in chapters:
        closed = pages[path].select("details.solution > summary")
        assert len(closed) == len(pages[path].select(".exercise"))


def test_formulas_use_only_glyphs_of_the_font(pages: dict[str, BeautifulSoup]) -> None:
    listed = (ROOT / "book/_static/fonts/subset.txt").read_text(encoding="utf-8")
    known = set("\n\t")
    for line in listed.splitlines():
        if not line.startswith("#"):
            first, _, last = line.partition("-")
            known |= {chr(n) for n in range(int(first, 16), int(last or first, 16) + 1)}
    text = "".join(tag.get_text() for page in pages.values() for tag in page("math"))
    assert set(text) - known == set()


def test_addresses_are_written_in_one_place() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("a copy without history has no list of its files")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    defaults = (BOOK.slug.split("/")[0], urlsplit(BOOK.site).netloc)
    holders = set()
    for name in filter(None, tracked.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and not name.startswith("notebooks/"):
            content = path.read_bytes()
            holders |= {name for word in defaults if word.encode() in content}
    assert holders <= {"_config.yml"}


# The tools


def test_prune_keeps_what_can_match() -> None:
    css = "@media print{.a .gone{color:red}.a>p:hover,.gone{color:red}} #x{--y:1}"
    assert styles.prune(css, {"a", "p"}) == "@media print{.a>p:hover{color:red}}"


@pytest.mark.parametrize("selector", [":not(.gone)", ":is(.gone,.a)", "[data-gone]"])
def test_prune_keeps_what_it_cannot_decide(selector: str) -> None:
    assert styles.prune(f"{selector}{{color:red}}", set())


def test_prune_looks_for_a_part_of_a_class() -> None:
    css = "[class*=-Red]{color:red}[class*=-Blue]{color:blue}"
    assert styles.prune(css, {"-Color-Red"}) == "[class*=-Red]{color:red}"


def test_prune_refuses_broken_css() -> None:
    with pytest.raises(ValueError, match="expected a CSS rule, got error"):
        styles.prune("a{} }", {"a"})


def test_unused_variables_go_with_those_that_read_them() -> None:
    css = "a{--x:1;--y:var(--x);--z:2;color:var(--z)}"
    assert styles.drop_unused_variables(css) == "a{--z:2;color:var(--z)}"


def test_icons_draws_those_in_use() -> None:
    script = (
        '{"bars":[448,512,["navicon"],"f0c9","M0 96z"],sun:[512,512,[],"f185","M1z"]}'
    )
    css = styles.icons(script, ['<i class="fa-solid fa-bars fa-lg"></i>'])
    assert ".fa-bars{" in css and "0 0 448 512" in css and ".fa-sun" not in css


def test_icons_refuses_an_unknown_one() -> None:
    with pytest.raises(ValueError, match="Font Awesome Free, got fa-none"):
        styles.icons("{}", ['<i class="fa-solid fa-none"></i>'])


@pytest.mark.parametrize(
    ("latex", "reason"),
    [
        (r"\unheardof{x}", r"unknown \\unheardof"),
        (r"\frac{a", "unbalanced braces"),
        (r"\begin{gather}a\\b\end{gather}", "a line break outside split"),
        (r"\left( x", "cannot render"),
    ],
)
def test_formula_refuses_what_it_would_misread(latex: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        formulas.mathml(latex, display=True)


def test_formula_keeps_the_brackets_of_a_matrix_together() -> None:
    latex = r"y = \begin{pmatrix} a \\ b \end{pmatrix} x"
    root = ElementTree.fromstring(formulas.mathml(latex, display=True))
    kinds = [child.tag.split("}")[1] for child in root[0]]
    assert kinds == ["mi", "mo", "mrow", "mi"]


def test_formula_spaces_a_function_from_its_bare_argument() -> None:
    assert "mspace" in formulas.mathml(r"n \log n", display=False)
    assert "mspace" not in formulas.mathml(r"\log(n)", display=False)


@pytest.fixture
def built(
    tmp_path: Path, site_tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[str]]:
    """Builds a tiny book with its steps left out and returns the steps' names."""
    steps: list[str] = []

    def run(_command: list[str], _root: Path, _log: Path, say: str) -> str:
        steps.append(say)
        if "BROKEN" in (tmp_path / "book/page.md").read_text():
            raise site_tool.BuildError("broken")
        return ""

    def slim(_stage: Path, site: Path) -> None:
        site.mkdir(exist_ok=True)
        (site / "index.html").touch()

    def build() -> list[str]:
        steps.clear()
        site_tool.build(tmp_path)
        return steps

    monkeypatch.setattr(site_tool, "run", run)
    monkeypatch.setattr(site_tool.slim, "slim", slim)
    (tmp_path / "book").mkdir()
    (tmp_path / "book/page.md").write_text("1")
    return build


def test_build_repeats_only_what_changed(
    tmp_path: Path, built: Callable[[], list[str]]
) -> None:
    assert len(built()) == 2
    assert built() == []
    kept = tmp_path / "_build/stage/kept"
    kept.parent.mkdir()
    kept.touch()
    (tmp_path / "book/page.md").write_text("2")
    assert len(built()) == 2 and not kept.exists()
    (tmp_path / "_config.yml").write_text("title: new")
    assert len(built()) == 2


def test_build_starts_from_nothing_after_a_failure(
    tmp_path: Path, site_tool: ModuleType, built: Callable[[], list[str]]
) -> None:
    built()
    kept = tmp_path / "_build/stage/kept"
    kept.parent.mkdir()
    kept.touch()
    (tmp_path / "book/page.md").write_text("BROKEN")
    with pytest.raises(site_tool.BuildError):
        built()
    (tmp_path / "book/page.md").write_text("1")
    assert len(built()) == 2 and not kept.exists()


def test_digest_covers_content_names_and_overrides(
    tmp_path: Path, site_tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest() -> str:
        return site_tool.digest(tmp_path, ("book",))

    (tmp_path / "book").mkdir()
    page = tmp_path / "book/a.md"
    page.write_text("1")
    digests = [digest()]
    page.write_text("2")
    digests.append(digest())
    page.rename(tmp_path / "book/b.md")
    digests.append(digest())
    monkeypatch.setenv("BOOK_SITE", "https://example.org/")
    digests.append(digest())
    assert len(set(digests)) == 4


def test_run_shows_why_a_step_failed(tmp_path: Path, site_tool: ModuleType) -> None:
    code = "print('fine'); print('a.md:3: WARNING: no such page'); raise SystemExit(1)"
    with pytest.raises(site_tool.BuildError) as caught:
        site_tool.run(
            [sys.executable, "-c", code], tmp_path, tmp_path / "log", "a step"
        )
    first, second = str(caught.value).splitlines()
    assert first == f"a step failed; the whole log is {tmp_path / 'log'}"
    assert second == "a.md:3: WARNING: no such page"


def test_serve_names_a_busy_port(tmp_path: Path, site_tool: ModuleType) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(site_tool.BuildError, match=f"port {port} is not available"):
            site_tool.serve(tmp_path, port)


def test_server_answers_misses_with_the_book_page(address: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{address}functions/nowhere.html")
    with caught.value as answer:
        assert answer.code == 404
        assert re.search("<h1>Page not found", answer.read().decode())


def test_charts_are_made_lighter_and_look_the_same(tmp_path: Path) -> None:
    chart = Image.new("RGBA", (540, 320), "white")
    draw = ImageDraw.Draw(chart)
    for step in range(40):
        shade = (step * 6, 114, 178, 255)
        draw.line([(12 * step, 300 - step), (540, 7 * step)], fill=shade, width=3)
    chart.save(tmp_path / "chart.png", compress_level=1)
    before = (tmp_path / "chart.png").stat().st_size
    slim._lighten(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size < before / 2
    assert [path.name for path in tmp_path.iterdir()] == ["chart.png"]
    with Image.open(tmp_path / "chart.png") as lighter:
        gap = ImageChops.difference(lighter.convert("RGB"), chart.convert("RGB"))
    assert max(high for _, high in gap.getextrema()) <= 4


def test_transparent_pictures_stay_as_they_are(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    Image.new("RGBA", (300, 200), (0, 0, 0, 0)).save(picture, compress_level=0)
    before = picture.read_bytes()
    slim._lighten(picture)
    assert picture.read_bytes() == before


def test_compact_keeps_every_declaration() -> None:
    css = "a:hover{color: red; background: url(x);}\n@media (width: 3px){b{top: 0 1px}}"
    assert styles.compact(css) == (
        "a:hover{color:red;background:url(x)}\n@media (width: 3px){b{top:0 1px}}"
    )
