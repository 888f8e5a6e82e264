"""The player of a systolic array: what it shows, and how it is stepped."""

from __future__ import annotations

import functools
import re

import jax.numpy as jnp
import numpy as np
import pytest
from bs4 import BeautifulSoup
from test_widgets import page, show, status

from helpers.player import play, strip
from helpers.player_scenes import scenes
from helpers.systolic import Run, simulate
from helpers.systolic_counts import Array
from helpers.widgets import DARK

__all__ = ["page"]

GRID = Array(2, 2)
A, B = np.int8([[1, 2], [3, 4]]), np.int8([[5, 6], [7, 8]])


@functools.cache
def two_by_two() -> Run:
    """The run of most tests; not at import, which would start JAX too early."""
    return simulate(A, B, GRID, record=True)


def recorded(array: Array, m: int = 4, k: int = 3, n: int = 3) -> Run:
    """A run over small numbers."""
    chance = np.random.default_rng(0)
    a, b = (chance.integers(1, 9, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    return simulate(a, b, array, record=True)


def player(array: Array = GRID, run: Run | None = None, **changes):
    return play(run or two_by_two(), array, **({"title": "Two by two"} | changes))


def drawn(figure) -> list[str]:
    """The texts of the cells, as a browser or a parser finds them."""
    soup = BeautifulSoup(figure, "html.parser")
    return [text.get_text() for text in soup.select("svg text[data-from]")]


def test_scenes_say_what_happened_by_hand():
    found = scenes(two_by_two(), GRID)
    # Cycle 4: 3·5 above, 2·7 added to the 5 that came down, 1·6 beside it.
    texts = found[3].texts
    assert [texts["work", r, c] for r, c in ((0, 0), (0, 1), (1, 0))] == [
        "3 × 5",
        "1 × 6",
        "2 × 7",
    ]
    assert texts["sum", 1, 0] == "19" and texts["sum-below", 1, 0] == "↓"
    assert ("work", 1, 1) not in texts and texts["next", 1, 1] == "8"
    assert texts["left", 1, 0] == "4", "the second row's last operand still waits"
    assert texts["out", 0, 0] == "19"
    assert found[3].sentence == (
        "Cycle 4 of 6: 3 of 4 cells multiply. From the left come 3 and 2. The sum 19 "
        "leaves column 1. So far 4 of 8 multiplications; utilisation 25%."
    )
    assert found[3].utilization == 4 / 16
    assert (
        found[-1].done == 8 and found[-1].utilization == two_by_two().counts.utilization
    )


@pytest.mark.parametrize("dataflow", ["ws", "is", "os"])
@pytest.mark.parametrize("overlap", [False, True])
def test_what_leaves_is_the_product(dataflow, overlap):
    array = Array(3, 3, dataflow, overlap)
    run = recorded(array, n=6)
    found = scenes(run, array)
    leaving = sorted(int(text) for scene in found for text, _ in scene.leaving)
    assert leaving == sorted(run.product.ravel().tolist())
    assert [scene.busy.sum() for scene in found] == run.busy.tolist()
    left = sum(len(scene.entering[0]) for scene in found)
    top = sum(len(scene.entering[1]) for scene in found)
    reads = (run.counts.a_reads, run.counts.b_reads)
    assert (left, top) == (reads[::-1] if dataflow == "is" else reads)


def test_floats_are_short():
    a = np.full((1, 1), 1 / 3).astype(jnp.bfloat16)
    run = simulate(a, a, Array(1, 1), record=True)
    texts = scenes(run, Array(1, 1))[-1].texts
    assert texts["work", 0, 0] == "0.334 × 0.334" and texts["sum", 0, 0] == "0.112"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: player(run=simulate(A, B, GRID)), "expected a run with frames"),
        (lambda: player(Array(2, 2, "os")), r"on 2x2 \(os\), got one on 2x2 \(ws or"),
        (lambda: player(Array(3, 2)), "expected a run on 3x2"),
        (lambda: player(cycle=7), r"expected cycles of 1 to 6, got \[7\]"),
        (lambda: player(cycle=0), r"expected cycles of 1 to 6, got \[0\]"),
        (lambda: strip(two_by_two(), GRID, [], title="t"), "expected cycles of 1 to 6"),
        (
            lambda: player(Array(6, 5), recorded(Array(6, 5))),
            "expected at most 25 cells and 60 cycles, got 30",
        ),
        (
            lambda: player(GRID, recorded(GRID, m=70)),
            "expected at most 25 cells and 60 cycles, got 4 and",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_player_is_light_without_its_data():
    array = Array(4, 4)
    made = play(recorded(array, 8, 4, 4), array, title="t")
    data = re.search(r'data-part="data">(.*?)</script>', made.html, re.S)[1]
    assert len(made.html.encode()) - len(data.encode()) < 30_000
    assert len(made.html.encode()) < 60_000


def test_without_a_script_a_frame_and_all_cycles_as_a_table_remain(browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    show(page, player(cycle=4))
    assert page.locator("svg text.work", has_text="2 × 7").is_visible()
    page.locator("summary").click()
    assert page.locator("tbody tr").count() == 6
    assert page.locator("button").count() == 0
    context.close()


def test_strip_draws_the_cycles_and_has_no_controls(page):
    made = strip(two_by_two(), GRID, [3, 4], title="Two cycles")
    show(page, made)
    assert page.locator("svg").count() == 2 and page.locator("button").count() == 0
    assert page.locator("svg").nth(1).locator("text.work").all_text_contents() == [
        "3 × 5",
        "1 × 6",
        "2 × 7",
    ]
    assert made.text.count("Cycle") == 2


def test_script_shows_what_python_wrote_in_every_cycle(page):
    show(page, player())
    for cycle in range(1, 7):
        page.get_by_role("slider").fill(str(cycle - 1))
        shown = page.locator("svg text[data-from]").all_text_contents()
        assert shown == drawn(player(cycle=cycle).html)
        assert status(page) == scenes(two_by_two(), GRID)[cycle - 1].sentence
        busy = page.locator("svg rect.busy").count()
        assert busy == two_by_two().busy[cycle - 1]
        assert page.locator("rect.bar.now").count() == 1


def test_arrows_step_forward_and_back_and_stop_at_the_ends(page):
    show(page, player())
    page.locator('[data-part="picture"]').focus()
    said = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "Home"):
        page.keyboard.press(key)
        said.append(int(status(page).split()[1]))
    assert said == [2, 3, 2, 6, 6, 1]
    assert page.get_by_role("button", name="Back").is_disabled()
    assert page.get_by_role("slider").input_value() == "0"


def test_arrows_on_the_slider_move_one_cycle_and_not_two(page):
    show(page, player())
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    assert status(page).startswith("Cycle 2 of 6")
    spoken = page.get_by_role("slider").get_attribute("aria-valuetext")
    assert spoken == "2 of 6"


def test_arrows_on_a_button_step_too(page):
    show(page, player(cycle=3))
    page.get_by_role("button", name="Forward").focus()
    page.keyboard.press("ArrowLeft")
    assert status(page).startswith("Cycle 2 of 6")


def test_buttons_work_by_touch(page):
    show(page, player())
    page.get_by_role("button", name="Forward").tap()
    page.get_by_role("button", name="Forward").tap()
    page.get_by_role("button", name="Back").tap()
    assert status(page).startswith("Cycle 2 of 6")
    for name in ("Back", "Forward"):
        box = page.get_by_role("button", name=name).bounding_box()
        assert box["height"] >= 30 and box["width"] >= 40, "large enough for a thumb"


def test_play_runs_to_the_end_and_stops(page):
    page.clock.install()
    show(page, player(cycle=4))
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(1000)
    assert status(page).startswith("Cycle 5 of 6")
    page.clock.run_for(5000)
    assert status(page).startswith("Cycle 6 of 6")
    assert page.get_by_role("button", name="Play").is_visible()


def test_a_step_by_hand_stops_the_play(page):
    page.clock.install()
    show(page, player())
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Forward").click()
    page.clock.run_for(5000)
    assert status(page).startswith("Cycle 2 of 6")


def animations(page) -> int:
    return page.evaluate("document.getAnimations().length")


def test_values_move_forward_unless_the_reader_wants_no_motion(page):
    show(page, player(cycle=2))
    page.get_by_role("button", name="Forward").click()
    assert animations(page) > 0
    page.wait_for_function("document.getAnimations().length === 0")
    page.get_by_role("button", name="Back").click()
    assert animations(page) == 0, "nothing flows backwards"
    page.emulate_media(reduced_motion="reduce")
    show(page, player(cycle=2))
    page.get_by_role("button", name="Forward").click()
    assert animations(page) == 0
    assert page.get_by_role("button", name="Play").count() == 0


def test_print_shows_the_last_frame(page):
    show(page, player())
    page.locator('[data-part="picture"]').focus()
    page.keyboard.press("End")
    page.emulate_media(media="print")
    assert page.locator("svg text.work").all_text_contents()[-1] == "4 × 8"
    assert not page.get_by_role("slider").is_visible()


def test_player_is_dark_on_a_dark_page(page):
    show(page, player(), html="<html data-theme=dark>")
    fill = page.locator("svg text.work").first.evaluate(
        "element => getComputedStyle(element).fill"
    )
    wanted = tuple(int(DARK["compute"][i : i + 2], 16) for i in (1, 3, 5))
    assert fill == f"rgb{wanted}"


def test_nothing_is_wider_than_a_phone(page):
    array = Array(4, 4)
    run = recorded(array, 8, 4, 4)
    show(
        page,
        play(run, array, title="t"),
        strip(two_by_two(), GRID, [1, 2, 3], title="t"),
    )
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
