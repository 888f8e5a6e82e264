"""Figures: what they draw, what they refuse, and that a dark page does not show."""

from __future__ import annotations

import pytest

from helpers.plots import PALETTE, curves, scatter
from helpers.timelines import lanes, timeline


def test_curves_draw_each_line_with_its_label_and_units():
    figure = curves(
        {"one": (range(1, 4), [1, 2, 3]), "two": ([1, 2], [0.5, 0.25])},
        x_label="step",
        y_label="loss",
        title="Both fall",
        log_y=True,
        reference=("limit", 1.5),
    )
    (axes,) = figure.axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["one", "two", "limit"]
    assert [line.get_color() for line in axes.lines[:2]] == list(PALETTE[:2])
    assert axes.lines[0].get_linestyle() != axes.lines[1].get_linestyle()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "loss")
    assert axes.get_yscale() == "log"


def test_whole_steps_get_whole_ticks():
    figure = curves({"": (range(1, 4), [1, 2, 3])}, x_label="step", y_label="loss")
    assert all(float(tick).is_integer() for tick in figure.axes[0].get_xticks())


def test_scatter_draws_panels_on_shared_axes():
    figure = scatter(
        {"left": ([0, 1], [0, 1]), "right": ([0, 2], [1, 0])}, x_label="x", y_label="y"
    )
    left, right = figure.axes
    assert [panel.get_title(loc="left") for panel in (left, right)] == ["left", "right"]
    assert left.get_xlim() == right.get_xlim()


@pytest.mark.parametrize("draw", [curves, scatter])
def test_figures_have_an_opaque_background(draw):
    figure = draw({"a": ([1], [2])}, x_label="x", y_label="y")
    assert figure.get_facecolor() == (1, 1, 1, 1)


@pytest.mark.parametrize("draw", [curves, scatter])
def test_figures_refuse_nothing_and_unequal_lengths(draw):
    with pytest.raises(ValueError, match="expected at least one (line|panel), got non"):
        draw({}, x_label="x", y_label="y")
    with pytest.raises(ValueError, match="as many x as y values for 'a', got 2 and 1"):
        draw({"a": ([1, 2], [1])}, x_label="x", y_label="y")


def test_lanes_show_what_each_needs_and_the_rest_up_to_the_longest():
    figure = lanes([2, 5, 0], first=1, x_label="turn", y_label="number", title="Waits")
    (axes,) = figure.axes
    needed, wasted = axes.containers
    assert [(bar.get_x(), bar.get_width()) for bar in needed] == [
        (0, 2),
        (0, 5),
        (0, 0),
    ]
    assert [(bar.get_x(), bar.get_width()) for bar in wasted] == [
        (2, 3),
        (5, 0),
        (0, 5),
    ]
    centres = [bar.get_y() + bar.get_height() / 2 for bar in needed]
    assert centres == pytest.approx([1, 2, 3])
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["needed", "computed and thrown away"]
    assert figure.get_facecolor() == (1, 1, 1, 1)


@pytest.mark.parametrize("steps", [[], [3, -1]])
def test_lanes_refuse_no_lanes_and_negative_counts(steps):
    with pytest.raises(ValueError, match="expected turns of at least one lane"):
        lanes(steps, x_label="turn", y_label="lane")


def test_timeline_draws_one_mark_a_call_and_names_what_occurs():
    figure = timeline(
        {"as called": ["traced", "cached", "traced"], "mended": ["traced", "cached"]},
        labels=["f(1)", "f(2)", "f(3.0)"],
        title="Two traces",
    )
    (axes,) = figure.axes
    drawn = {marks.get_label(): marks.get_offsets() for marks in axes.collections}
    assert sorted(map(tuple, drawn["traced"].tolist())) == [(1, 0), (1, 1), (3, 0)]
    assert len(drawn["cached"]) == 2 and "compiled" not in drawn
    assert [tick.get_text() for tick in axes.get_xticklabels()][2] == "f(3.0)"
    assert [tick.get_text() for tick in axes.get_yticklabels()][0] == "as called"
    assert figure.get_facecolor() == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("calls", "labels", "message"),
    [
        ({}, (), "at least one call, got none"),
        ({"f": []}, (), "at least one call, got none"),
        ({"f": ["cached"]}, ("a", "b"), "expected 1 labels, got 2"),
        ({"f": ["hit"]}, (), "among traced, compiled, cached, got 'hit'"),
    ],
)
def test_timeline_refuses_what_it_cannot_draw(calls, labels, message):
    with pytest.raises(ValueError, match=message):
        timeline(calls, labels=labels)
