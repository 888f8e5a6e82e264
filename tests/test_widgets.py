"""Interactive figures: what they are without a script, and what one adds to them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from helpers.chips import CHIPS
from helpers.costs import Cost, intensity, matmul_cost
from helpers.roofline import bound, roof
from helpers.roofline_picture import _spread
from helpers.roofline_widget import Operation, explore
from helpers.tables import table
from helpers.widgets import DARK, LIGHT, companion, fragment

STYLE = Path(__file__).resolve().parent.parent / "book/_static/book.css"
BATCHES = (1, 16, 256, 4096)
COUNTER = """
let count = data.first;
const show = () => { part("number").textContent = count; say(`now ${count}`); };
button("More", () => { count += 1; show(); });
slider("Set", ["zero", "one", "two"], 0, index => { count = index; show(); });
choice("Word", ["a", "b"], word => say(word + (calm ? " calm" : "")));
show();
"""


def counter(**changes: object):
    """A small figure that counts."""
    given = {
        "title": "One & more",
        "text": "A number.",
        "content": '<svg viewBox="0 0 9 9"><text data-part="number">7</text></svg>',
        "script": COUNTER,
        "style": "& text { fill: var(--memory); }",
        "table": table([{"n": 7}]),
    }
    return fragment("counter", {"first": 7}, **(given | changes))


def operations() -> list[Operation]:
    """A product and an elementwise operation, at all batch sizes."""
    return [
        Operation(
            "matmul",
            "bound",
            {b: matmul_cost(b, 4096, 4096) for b in BATCHES},
            link_bytes={b: 2.0 * 4096**2 * 2 for b in BATCHES},
        ),
        Operation("ReLU", "bound", {b: Cost(b * 4096, b * 4 * 4096) for b in BATCHES}),
        Operation(
            "int8 matmul",
            "bound",
            {
                b: matmul_cost(b, 4096, 4096, left_bytes=1, right_bytes=1)
                for b in BATCHES
            },
            dtype="int8",
        ),
    ]


def test_fragment_is_one_figure_that_names_itself():
    made = counter()
    page = BeautifulSoup(made.html, "html.parser")
    (figure,) = page.find_all(recursive=False)
    assert figure["data-widget"] == made.id
    assert re.fullmatch(r"counter-[0-9a-f]{8}", made.id)
    assert figure.figcaption.get_text() == "One & more"
    assert figure.table is not None
    assert repr(made) == "One & more\nA number."
    assert not page.find_all(id=True), "an id could stand twice on a page"


def test_fragment_is_the_same_every_time_and_another_for_other_content():
    assert counter().html == counter().html
    assert counter().id != counter(text="Another number.").id


def test_data_cannot_end_the_script_that_holds_them():
    made = fragment("x", ["</script><b>"], title="t", text="t", content="c", script=";")
    page = BeautifulSoup(made.html, "html.parser")
    assert json.loads(page.find("script", type="application/json").string) == [
        "</script><b>"
    ]
    assert page.b is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"script": 'fetch("x")'}, "ask no other host"),
        ({"script": '"https://cdn.example/d3.js"'}, "ask no other host"),
        ({"style": "& { background: url(x.png) }"}, "ask no other host"),
        ({"style": "@import 'x.css';"}, "ask no other host"),
        ({"content": '<img src="x.png">'}, "ask no other host"),
        ({"script": "'</script>'"}, "without an end tag"),
        ({"title": " "}, "expected title to say something"),
        ({"text": ""}, "expected text to say something"),
    ],
)
def test_fragment_refuses_what_would_break_it(changes, message):
    with pytest.raises(ValueError, match=message):
        counter(**changes)


def test_fragment_refuses_an_id_that_css_cannot_hold():
    with pytest.raises(ValueError, match="expected a kind"):
        fragment("A b", 1, title="t", text="t", content="c", script=";")


def test_fragment_refuses_data_that_json_cannot_hold():
    with pytest.raises(ValueError):
        fragment("x", float("nan"), title="t", text="t", content="c", script=";")
    with pytest.raises(TypeError):
        fragment("x", {1j}, title="t", text="t", content="c", script=";")


def test_every_rule_of_the_style_is_for_one_figure():
    made = counter()
    style = BeautifulSoup(made.html, "html.parser").style.string
    style = re.sub(r"@(media|container)[^{]*\{", "", style)
    selectors = re.findall(r"([^{}]+)\{[^{}]*\}", style)
    assert len(selectors) > 15
    for selector in selectors:
        assert made.id in selector, selector


def test_colours_are_those_of_the_site():
    css = STYLE.read_text(encoding="utf-8")
    themes = {
        "light": re.search(r'html\[data-theme="light"\] \{(.*?)\}', css, re.S)[1],
        "dark": re.search(r'html\[data-theme="dark"\] \{(.*?)\}', css, re.S)[1],
    }
    for theme, ours in (("light", LIGHT), ("dark", DARK)):
        for name, colour in ours.items():
            assert f"--book-{name}: {colour};" in themes[theme], (theme, name)


def test_companion_leaves_out_comments_and_indents(tmp_path):
    (tmp_path / "m.js").write_text("// why\n  a;\n\n  b; // kept\n")
    assert companion(str(tmp_path / "m.py"), "js") == "a;\nb; // kept"


def test_roofline_is_light():
    assert len(explore(operations(), title="t").html.encode()) < 30_000


def test_roofline_without_a_script_has_an_answer_for_each_chip():
    made = explore(operations(), title="t", batch=256)
    page = BeautifulSoup(made.html, "html.parser")
    head = [cell.get_text() for cell in page.select("thead th")]
    first = [cell.get_text() for cell in page.select("tbody tr")[0].select("td")]
    answers = dict(zip(head, first, strict=True))
    machine = roof("v5e", per="device")
    found = bound(matmul_cost(256, 4096, 4096), machine)
    assert answers["v5e"] == f"{found.limited_by} {found.peak_fraction:.0%}"
    assert {"v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"} <= set(answers)
    assert page.select_one("svg path.chosen")["data-part"] == "roof v5e"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operations": []}, "at least one operation"),
        ({"start": "v9"}, "expected to start with"),
        ({"batch": 3}, "expected to start with"),
        ({"chips": ["v9"], "start": "v9"}, "expected a chip of"),
        (
            {"operations": [Operation("x", "guess", {1: Cost(1, 1)})]},
            "expected kind in",
        ),
        ({"operations": [Operation("x", "bound", {})]}, "expected the batch sizes"),
        (
            {"operations": [Operation("x", "bound", {1: Cost(1, 0)})]},
            "compute and to move something",
        ),
        (
            {"operations": [Operation("x", "bound", {1: Cost(math.inf, 1)})]},
            "compute and to move something",
        ),
        (
            {"operations": [Operation("x", "bound", {1: Cost(1, 1)}, {2: 1.0})]},
            "send something at each",
        ),
        (
            {"operations": [Operation("x", "bound", {1: Cost(1, 1)}, {1: 0.0})]},
            "send something at each",
        ),
    ],
)
def test_roofline_refuses(changes, message):
    given = {"operations": operations(), "title": "t"} | changes
    with pytest.raises(ValueError, match=message):
        explore(given.pop("operations"), **given)


def test_labels_never_cover_each_other():
    places = _spread({"a": 50, "b": 51, "c": 52, "d": 200})
    heights = sorted(places.values())
    gaps = [b - a for a, b in zip(heights, heights[1:], strict=False)]
    assert min(gaps) >= 14.9
    assert list(places) == ["a", "b", "c", "d"]


# In a browser


@pytest.fixture(params=[1280, 390], ids=["desk", "phone"])
def page(browser, request) -> Iterator[object]:
    """A page of a given width, on which every complaint is a failure."""
    size = {"width": request.param, "height": 844}
    context = browser.new_context(viewport=size, has_touch=True, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(5000)
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    context.close()
    assert faults == []


def show(page, *made, html: str = "<html data-theme=light>") -> None:
    """Puts figures on an empty page."""
    body = "".join(each.html for each in made)
    page.set_content(f"<!doctype html>{html}<body>{body}")


def status(page) -> str:
    """What the first figure's status line says."""
    return page.locator('[data-part="status"]').first.text_content()


def test_controls_work_by_keyboard(page):
    show(page, counter())
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert status(page) == "now 8"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert status(page) == "now 1"
    assert page.locator("input").get_attribute("aria-valuetext") == "one"
    outline = page.locator("input").evaluate("e => getComputedStyle(e).outlineStyle")
    assert outline == "solid", "the focus must be seen"
    page.keyboard.press("Tab")
    page.keyboard.press("b")
    assert status(page).startswith("b")


def test_two_equal_figures_on_a_page_do_not_share_a_state(page):
    show(page, counter(), counter())
    page.locator("button").nth(1).tap()
    numbers = page.locator('[data-part="number"]').all_text_contents()
    assert numbers == ["7", "8"]


def test_reader_who_wants_no_motion_is_heard(page):
    page.emulate_media(reduced_motion="reduce")
    show(page, counter())
    page.locator("select").select_option("b")
    assert status(page) == "b calm"


def test_print_keeps_the_last_frame_and_leaves_out_controls(page):
    show(page, counter())
    page.locator("button").tap()
    page.emulate_media(media="print")
    assert page.locator('[data-part="number"]').text_content() == "8"
    assert not page.locator("button").is_visible()


@pytest.mark.parametrize(
    ("html", "scheme", "colours"),
    [
        ("<html data-theme=light>", "dark", LIGHT),
        ("<html data-theme=dark>", "light", DARK),
        ("<html theme=dark>", "light", DARK),
        ("<html>", "dark", DARK),
        ("<html>", "light", LIGHT),
    ],
)
def test_figure_is_dark_where_the_page_is(page, html, scheme, colours):
    page.emulate_media(color_scheme=scheme)
    show(page, counter(), html=html)
    found = page.locator("figure").evaluate("e => getComputedStyle(e).backgroundColor")
    wanted = tuple(int(colours["paper"][i : i + 2], 16) for i in (1, 3, 5))
    assert found == f"rgb{wanted}"


def test_without_a_script_the_picture_and_the_table_remain(browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    show(page, explore(operations(), title="t"))
    assert page.locator("svg path.chosen").is_visible()
    assert page.locator("ol li").count() == 3
    page.locator("summary").click()
    assert page.locator("table").is_visible()
    context.close()


def test_a_script_that_fails_leaves_what_reads_without_it(browser):
    context = browser.new_context()
    page = context.new_page()
    show(page, counter(script="button('x', () => 0); data.none.at(1);"))
    assert page.locator("figure").get_attribute("data-started") == "failed"
    assert page.locator("button").count() == 0
    assert page.locator("svg").is_visible()
    context.close()


def numbers(said: str) -> list[float]:
    """The numbers after the colon of a status line, times in seconds."""
    units = {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
    text = said.partition("device of ")[2].partition(": ")[2].replace(",", "")
    found = re.findall(r"(\d[\d.e+-]*\d|\d)(?:\s?(ms|µs|ns|s)\b)?", text)
    return [float(value) * units.get(unit, 1) for value, unit in found]


@pytest.mark.parametrize("name", ["v2", "v4", "v5e", "v6e", "tpu7x"])
def test_script_computes_what_python_computes(page, name):
    made = operations()
    show(page, explore(made, title="t", batch=1))
    page.get_by_role("combobox", name="Chip").select_option(name)
    for index, batch in enumerate(BATCHES):
        page.get_by_role("slider").fill(str(index))
        for number in (0, 1):
            page.locator("ol button").nth(number).click()
            work, machine = made[number].by_batch[batch], roof(name, per="device")
            found, said = bound(work, machine), status(page)
            assert f"batch {batch}, one device of {name}" in said
            assert f"Bound by {found.limited_by}:" in said
            got = numbers(said.replace("bf16", ""))
            wanted = [
                intensity(work),
                machine.ridge_flops_per_byte,
                found.bound_s,
                100 * found.peak_fraction,
            ]
            assert got == pytest.approx(wanted, rel=6e-3, abs=0.51e-9 + 1e-9), said


def test_links_have_a_ridge_of_their_own(page):
    made = operations()
    show(page, explore(made, title="t", batch=256))
    page.get_by_role("combobox", name="Bytes").select_option("network")
    machine = roof("v5e", per="device", links=2)
    said = status(page)
    ridge = machine.network_ridge_flops_per_byte
    assert numbers(said)[2] == pytest.approx(ridge, rel=5e-3), said
    found = bound(
        Cost(matmul_cost(256, 4096, 4096).flops, 0), machine, link_bytes=2**26
    )
    assert f"Bound by {found.limited_by}" in said
    page.locator("ol button").nth(1).click()
    assert "no number" in status(page), "the ReLU sends nothing"


def test_type_without_a_published_peak_has_no_number(page):
    assert CHIPS["v3"].peak_per_s("int8") is None
    show(page, explore(operations(), title="t"))
    page.get_by_role("combobox", name="Type").select_option("int8")
    assert "int8 matmul" in status(page) and "int8 peak" in status(page)
    page.get_by_role("combobox", name="Chip").select_option("v3")
    assert "no number" in status(page)
    assert page.locator('[data-part="roof v3"]').get_attribute("d") == ""


def test_arrows_walk_through_the_operations(page):
    show(page, explore(operations(), title="t"))
    page.locator("ol button").first.focus()
    page.keyboard.press("ArrowRight")
    assert status(page).startswith("ReLU")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert status(page).startswith("int8 matmul")


def test_a_point_can_be_touched_and_lies_on_the_chosen_roof(page):
    show(page, explore(operations(), title="t", batch=256))
    page.locator('[data-part="point 2"] text').tap()
    assert status(page).startswith("ReLU")
    before = page.locator('[data-part="point 2"]').get_attribute("transform")
    page.get_by_role("combobox", name="Chip").select_option("tpu7x")
    after = page.locator('[data-part="point 2"]').get_attribute("transform")
    assert before != after


def test_nothing_is_wider_than_a_phone(page):
    show(page, explore(operations(), title="t"))
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
