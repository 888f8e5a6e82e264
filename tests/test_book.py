"""The chapters as written: order, exercises, cells and promises to the reader."""

from __future__ import annotations

import re
from pathlib import Path

import jupytext
import nbformat
import pytest
import yaml
from test_exercises import WRONG

from helpers import diagrams, plots, timelines

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
CHAPTERS = sorted(
    path
    for path in BOOK.rglob("*/*.md")
    if path.read_text(encoding="utf-8").startswith("---\njupytext:")
)
IDS = [path.relative_to(BOOK).with_suffix("").as_posix() for path in CHAPTERS]
every_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=IDS)

# What each chapter has, in this order; headings of its own stand in between.
ORDER = (
    r"^:class: card$",
    r"^:class: predict$",
    r"^## The smallest model$",
    r"^## Predicted and measured$",
    r"^## On a TPU$",
    r"^## Where it breaks$",
    r"^## Takeaways$",
    r"^## Exercises$",
    r"^## Sources$",
)
EXERCISE = re.compile(
    r"```\{exercise\} (?P<title>.+) · \d+ (?:minutes?|hours?)\n:label: (?P<label>\S+)"
)
PRAISE = re.compile(
    r"\b(seamless\w*|powerful|revolutionary|simply|magic\w*|just|effortless\w*)\b", re.I
)
WIDTH = 76
DRAWN = [*plots.__all__, *timelines.__all__, *diagrams.__all__, "slot_picture"]
FIGURES = [name for name in DRAWN if name.islower()]
DRAWS = re.compile(rf"^({'|'.join(FIGURES)})\(", re.M)


def source(chapter: Path) -> str:
    return chapter.read_text(encoding="utf-8")


def prose(chapter: Path) -> str:
    """The text of a chapter without its cells, fences and inline code."""
    text = re.sub(r"^```\{code-cell\}.*?^```$", "", source(chapter), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text.partition("\n# ")[2])


def cells(chapter: Path) -> list:
    return [c for c in jupytext.read(chapter).cells if c.cell_type == "code"]


def test_there_is_a_chapter_and_each_is_in_the_contents():
    listed = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = {entry["file"] for part in listed["parts"] for entry in part["chapters"]}
    assert IDS and set(IDS) <= files


def test_the_map_links_what_exists_and_marks_what_is_coming():
    lines = (BOOK / "intro.md").read_text(encoding="utf-8").splitlines()
    entries = [line for line in lines if line.startswith(": ")]
    linked = {m[1] for line in entries if (m := re.search(r"<([\w/-]+)>`$", line))}
    assert linked == set(IDS)
    assert all(line.endswith(("`", "*(coming)*")) for line in entries)
    assert len(entries) == 23


@every_chapter
def test_chapter_keeps_the_order_of_its_parts(chapter):
    places = [re.search(part, source(chapter), re.M) for part in ORDER]
    missing = [part for part, place in zip(ORDER, places, strict=True) if place is None]
    assert missing == []
    starts = [place.start() for place in places]
    assert starts == sorted(starts)
    title = source(chapter).partition("\n# ")[2].splitlines()[0]
    assert title.endswith("?"), "a chapter's title is its question"


@every_chapter
def test_takeaways_are_at_most_five(chapter):
    part = source(chapter).partition("## Takeaways")[2].partition("\n## ")[0]
    assert 1 <= len(re.findall(r"^- ", part, re.M)) <= 5


@every_chapter
def test_each_exercise_has_starter_check_hint_and_executed_solution(chapter):
    part = source(chapter).partition("## Exercises")[2]
    found = list(EXERCISE.finditer(part))
    assert len(found) == part.count("```{exercise}") and 4 <= len(found) <= 5
    assert any(each["title"] and " hour" in each[0] for each in found)
    ends = [each.start() for each in found[1:]] + [len(part)]
    slug = chapter.stem.replace("-", "_")
    checked = set()
    for each, end in zip(found, ends, strict=True):
        text = part[each.start() : end]
        before, _, after = text.partition(f"```{{solution-start}} {each['label']}\n")
        (check,) = set(re.findall(r"^check\.(\w+)\(", before, re.M))
        assert re.search(r"= \.\.\.$|^    return \.\.\.$", before, re.M), "a starter"
        assert ":class: dropdown hint" in before, "a hint, folded"
        assert f"check.{check}(" in after, "the solution is checked"
        assert "```{solution-end}" in after
        assert len(WRONG[f"{slug}.{check}"]) >= 3, "refused wrong answers"
        checked.add(f"{slug}.{check}")
    assert checked == {name for name in WRONG if name.startswith(f"{slug}.")}


@every_chapter
def test_cells_are_short_and_narrow(chapter):
    lengths = []
    for cell in cells(chapter):
        lines = cell.source.splitlines()
        lengths.append(len(lines))
        assert len(lines) <= 30, f"{len(lines)} lines: {lines[0]}"
        wide = [line for line in lines if len(line) > WIDTH]
        assert wide == []
    assert sorted(lengths)[len(lengths) // 2] <= 12


@every_chapter
def test_paragraphs_are_short_and_free_of_praise(chapter):
    assert PRAISE.findall(prose(chapter)) == []
    paragraphs = [p for p in prose(chapter).split("\n\n") if p[:1].isalpha()]
    for paragraph in paragraphs:
        sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z{`])", paragraph.strip())
        assert len(sentences) <= 9, paragraph[:80]


@every_chapter
def test_every_source_cited_is_in_the_bibliography(chapter):
    known = set(
        re.findall(r"^@\w+\{(\w+),", (BOOK / "references.bib").read_text("utf-8"), re.M)
    )
    cited = set(re.findall(r"\{cite:[pt]\}`(\w+)`", source(chapter)))
    assert cited and cited <= known


@every_chapter
def test_figures_drawn_by_cells_have_alt_text(chapter):
    for cell in cells(chapter):
        if DRAWS.search(cell.source):
            # jupytext keeps the option in the cell's metadata.
            alt = cell.metadata["mystnb"]["image"]["alt"]
            assert len(alt) > 60, "say what the figure shows"


def shown_by_cells(chapter: Path) -> str:
    """All code of a chapter's notebook and all text that it printed."""
    path = ROOT / "notebooks" / chapter.relative_to(BOOK).with_suffix(".ipynb")
    notebook = nbformat.read(path, as_version=4)
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            parts.append(cell.source)
            for output in cell.outputs:
                data = output.get("data", {})
                texts = [v for kind, v in data.items() if kind.startswith("text/")]
                parts += [output.get("text", ""), *texts]
    return "\n".join(parts)


def unsupported(paragraph: str, shown: str) -> list[str]:
    """Numbers of a paragraph that no cell shows and no citation covers."""
    if "{cite:" in paragraph:
        return []
    numbers = re.findall(
        r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+\.\d+)(?![\w.]*\d)", paragraph
    )
    plain = re.sub(r"(?<=\d)[,_](?=\d)", "", shown)
    return [
        number
        for number in numbers
        if not re.search(rf"(?<![\d.]){re.escape(number.replace(',', ''))}", plain)
    ]


@every_chapter
def test_large_numbers_in_prose_come_from_a_cell_or_a_source(chapter):
    shown = shown_by_cells(chapter)
    paragraphs = re.split(r"\n\n|\n- ", prose(chapter))
    found = {p[:60]: unsupported(p, shown) for p in paragraphs}
    assert {start: numbers for start, numbers in found.items() if numbers} == {}


def test_a_number_typed_by_hand_is_found():
    assert unsupported("It takes 1,234 cycles, 5% of 0.75.", "1_234 2.75") == ["0.75"]
    assert unsupported("It takes 1,234 cycles {cite:p}`x`.", "") == []
