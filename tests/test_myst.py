"""MyST as notebook viewers get it: each construct, each refusal, each link's end."""

from __future__ import annotations

import re
from pathlib import Path

import addresses
import little_book
import pytest
from bs4 import BeautifulSoup
from chapters import export, read
from myst import Converter
from myst_syntax import MystError
from targets import Source

SITE = "https://book.example/"
INTRO = f"{SITE}intro.html"
FIRST = f"{SITE}part/first.html"
SECOND = f"[What is two and two?]({SITE}part/second.html)"


@pytest.fixture
def convert(tmp_path: Path):
    """Converts a text as if the page ``part/first`` consisted of it alone."""

    def convert(text: str) -> str:
        root = little_book.write(tmp_path, first=f"{text}\n")
        (root / "book/part/plot.png").write_bytes(b"")
        book = addresses.load(root / "_config.yml")
        return Converter(Source(root), book, "part/first").cell(text, 1)

    return convert


def box(*lines: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in lines)


def fold(title: str, *lines: str) -> str:
    body = "\n".join(lines)
    return f"<details>\n<summary><b>{title}</b></summary>\n\n{body}\n\n</details>"


INLINE = {
    "{doc}`second`": SECOND,
    "{doc}`this <second>` and {doc}`/intro`": (
        f"[this]({SITE}part/second.html) and [A little book]({INTRO})"
    ),
    "{term}`pure function`": f"[pure function]({INTRO}#term-pure-function)",
    "{term}`its memory <vmem>`": f"[its memory]({INTRO}#term-VMEM)",
    "{cite}`one,three`": f"([Lügner, 2001]({INTRO}); [One et al., 2003]({INTRO}))",
    "{cite:p}`one`": f"([Lügner, 2001]({INTRO}))",
    "{cite:t}`three`": f"[One et al. (2003)]({INTRO})",
    "{kbd}`a<b`": "<kbd>a&lt;b</kbd>",
    "{abbr}`MXU (matrix unit)`": '<abbr title="matrix unit">MXU</abbr>',
    "{math}`x^2`": "$x^2$",
    "[](second.md)": SECOND,
    "[](../intro.md)": f"[A little book]({INTRO})",
    "[a {math}`x` b](second.md 'T')": f'[a $x$ b]({SITE}part/second.html "T")',
    "[out](https://a.example) <https://b.example>": (
        "[out](https://a.example) <https://b.example>"
    ),
    "![A plot](plot.png)": f"![A plot]({SITE}_images/plot.png)",
    "![a {kbd}`q`](plot.png) {kbd}`q`": (
        f"![a {{kbd}}`q`]({SITE}_images/plot.png) <kbd>q</kbd>"
    ),
    "``{doc}`second` ``": "``{doc}`second` ``",
    "| a |\n|---|\n| [](second.md) |": f"| a |\n|---|\n| {SECOND} |",
    "> quoted [over\n> lines](second.md)": (
        f"> quoted [over\n> lines]({SITE}part/second.html)"
    ),
    "[r][x]\n\n[x]: second.md": f"[r]({SITE}part/second.html)\n\n[x]: second.md",
}


@pytest.mark.parametrize("source", INLINE)
def test_inline_becomes(convert, source):
    assert convert(source) == INLINE[source]


BLOCKS = {
    ":::{note} Opening\nBody.\n:::": box("**Note**", "", "Opening", "", "Body."),
    ":::{admonition} A `b`\n:class: card\n\nBody.\n:::": box("**A `b`**", "", "Body."),
    "```{tip}\n:class: dropdown\nBody.\n```": fold("Tip", "Body."),
    ":::{dropdown} A *b*\nBody.\n:::": fold("A <em>b</em>", "Body."),
    "before\n```{tip}\nBody.\n```\nafter": (
        f"before\n\n{box('**Tip**', '', 'Body.')}\n\nafter"
    ),
    "- item\n\n  ```{tip}\n  Body.\n  ```": "- item\n\n  > **Tip**\n  >\n  > Body.",
    "- :::{tip}\n  Body.\n  :::": "- > **Tip**\n  >\n  > Body.",
    "> ```{tip}\n> Body.\n> ```": "> > **Tip**\n> >\n> > Body.",
    "::::{note}\n\n:::{warning}\n[](second.md)\n:::\n::::": box(
        "**Note**", "", "> **Warning**", ">", f"> {SECOND}"
    ),
    "Term\n: One.\n: Two.\n\n**Bold**\n: - x": (
        "- **Term**\n\n  One.\n\n  Two.\n\n- **Bold**\n\n  - x"
    ),
    "% hidden\nshown\n\n(label)=\n## Heading": "shown\n\n## Heading",
    "```{math}\na = b\n```": "$$\na = b\n$$",
    "$$\na\n$$ (l)\n\n```{math}\n:label: m\nb\n```\n\n{eq}`m`": (
        f"$$\na \\tag{{1}}\n$$\n\n$$\nb \\tag{{2}}\n$$\n\n[(2)]({FIRST}#equation-m)"
    ),
    "```{figure} plot.png\n:alt: A line\n:name: f\nRising.\n```\n\n{numref}`f`": (
        f"![A line]({SITE}_images/plot.png)\n\nRising.\n\n[Rising.]({FIRST}#f)"
    ),
    "```{image} plot.png\n:alt: A line\n:width: 50%\n```": (
        f'<img src="{SITE}_images/plot.png" alt="A line" width="50%">'
    ),
    "```{margin}\nAside.\n```": "> Aside.",
    "```{list-table} Sizes\n:header-rows: 1\n* - A\n  - B\n* - 1\n  -\n```": (
        "**Sizes**\n\n| A | B |\n| --- | --- |\n| 1 |  |"
    ),
    "```{code-block} python\n:caption: Cap\nx = 1\n```": "Cap\n\n```python\nx = 1\n```",
    "::::{tab-set}\n\n:::{tab-item} JAX\nBody.\n:::\n::::": "**JAX**\n\nBody.",
    "```{exercise} Add\n:label: e\nDo.\n```\n\n{ref}`e`": (
        f"{box('**Exercise: Add**', '', 'Do.')}\n\n[Add]({FIRST}#e)"
    ),
    "```{button-ref} second\n:ref-type: doc\nGo\n```": (
        f"**[Go]({SITE}part/second.html)**"
    ),
    "```python\n{doc}`second`\n```": "```python\n{doc}`second`\n```",
}


@pytest.mark.parametrize("source", BLOCKS)
def test_block_becomes(convert, source):
    assert convert(source) == BLOCKS[source]


EXERCISE = "```{exercise} Add\n:label: e\n```\n\n"
REFUSED = {
    "a\n\n```{made-up} x\n```": "book/part/first.md:3: .* the directive {made-up}",
    "a\nb {made-up}`x`": "book/part/first.md:2: .* the role {made-up}",
    ":::{note}\n:class: x\n\na {made-up}`x`\n:::": "book/part/first.md:4: ",
    "```{eval-rst}\nx\n```": "directive {eval-rst}",
    "::: note\nx\n:::": "construct 'colon_fence'",
    "a[^1]\n\n[^1]: b": "construct 'footnote",
    '<img src="plot.png">': "construct 'html_block'",
    'a <img src="plot.png">': "construct 'html_inline'",
    "{doc}`third`": "names 'part/third', which is no page",
    "{ref}`nothing`": "no label 'nothing'",
    "{term}`nothing`": "no term 'nothing'",
    "{cite}`nothing`": "lists 'nothing'",
    "[a](third.md)": "'third.md' leads to no page or label",
    "[a](#nothing)": "'#nothing' leads to no page or label",
    "![a](none.png)": "image book/part/none.png does not exist",
    "```{image} plot.png\n```": "has no alt text",
    "```{math}\na\n\nb\n```": "blank line",
    "```{list-table}\n* - a\n```": "header-rows: 1",
    "```{solution-start} nothing\n```": "no exercise has the label 'nothing'",
    "(l)=\ntext\n\n{ref}`l`": "'l' has no title",
    "```{note}\n:bad\n```": "book/part/first.md:1: ",
}


@pytest.mark.parametrize("source", REFUSED)
def test_refusal_names_file_line_and_fault(convert, source):
    with pytest.raises(MystError, match=REFUSED[source]):
        convert(source)


def test_substitution_is_refused_where_the_site_enables_it(tmp_path):
    root = little_book.write(tmp_path, first="a {{ b }}\n")
    config = (root / "_config.yml").read_text()
    (root / "_config.yml").write_text(config.replace("[colon", "[substitution, colon"))
    book = addresses.load(root / "_config.yml")
    with pytest.raises(MystError, match="construct 'substitution_inline'"):
        Converter(Source(root), book, "part/first").cell("a {{ b }}", 1)


def test_extension_that_the_exporter_does_not_know_is_refused(tmp_path):
    root = little_book.write(tmp_path)
    config = (root / "_config.yml").read_text()
    (root / "_config.yml").write_text(config.replace("[colon", "[attrs_inline, colon"))
    with pytest.raises(MystError, match=r"enables .*\['attrs_inline'\]"):
        _ = Source(root).parser


def test_folded_solution_spans_cells(tmp_path):
    gate = "```{solution-start} e\n:class: dropdown\n```"
    root = little_book.write(tmp_path, first=EXERCISE)
    book = addresses.load(root / "_config.yml")
    converter = Converter(Source(root), book, "part/first")
    assert converter.cell(f"{gate}\n\nFirst.", 1) == fold("Solution: Add", "First.")
    assert converter.folded
    assert converter.cell("Between.", 9) == fold("Solution: Add", "Between.")
    last = converter.cell("Last.\n\n```{solution-end}\n```\n\nAfter.", 12)
    assert last == f"{fold('Solution: Add', 'Last.')}\n\nAfter."
    assert not converter.folded
    assert converter.cell(gate, 20) == "**Solution: Add**"


EVERYTHING = f"""\
{little_book.HEADER}
# Every kind of target

{{doc}}`second`, {{term}}`pure function`, {{term}}`VMEM`, {{cite:t}}`one`,
{{ref}}`my_Label`, [](#plain), {{eq}}`energy`, {{eq}}`two`, {{numref}}`fig`,
{{ref}}`ex-sum`, {{ref}}`a box <boxed>`.

(my_Label)=
## A heading

(plain)=
### Another

$$
E = m
$$ (energy)

```{{math}}
:label: two
a
```

```{{figure}} plot.png
:alt: A dot
:name: fig
A caption.
```

```{{exercise}} Sum
:label: ex-sum
Do.
```

```{{note}}
:name: boxed
Body.
```
"""
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154"
    "789c63680000008200817790c5380000000049454e44ae426082"
)


def test_every_exported_link_ends_where_the_site_has_its_target(tmp_path):
    root = little_book.write(tmp_path, first=EVERYTHING)
    (root / "book/part/plot.png").write_bytes(DOT)
    config = (root / "_config.yml").read_text()
    (root / "_config.yml").write_text(
        config.replace("notebooks: cache", 'notebooks: "off"')
    )
    little_book.build_site(root)
    source = Source(root)
    book = addresses.load(root / "_config.yml")
    notebook = export(source, book, read(source, "part/first"))
    text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    links = re.findall(rf"\({SITE}([^)#]+)(?:#([^)]+))?\)", text)
    assert len(links) >= 12
    for page, anchor in links:
        path = root / "_build/html" / page
        assert path.is_file(), page
        if anchor:
            html = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
            assert html.find(id=anchor), f"{page}#{anchor}"
