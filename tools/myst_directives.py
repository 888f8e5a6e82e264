"""Directives as the Markdown and the little HTML that notebook viewers show."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from myst_inline import ROLES, image_address
from myst_syntax import Directive

if TYPE_CHECKING:
    from myst import Converter

ADMONITIONS = {
    "attention": "Attention",
    "caution": "Caution",
    "danger": "Danger",
    "error": "Error",
    "hint": "Hint",
    "important": "Important",
    "note": "Note",
    "seealso": "See also",
    "tip": "Tip",
    "warning": "Warning",
}


def fold(title: str, body: str) -> str:
    """A part that the reader unfolds; the blank lines let Markdown in it render.

    Args:
        title: Inline Markdown.
        body: Markdown.

    Returns:
        HTML around the Markdown.
    """
    # A viewer does not look for Markdown between the tags of a summary.
    summary = MarkdownIt("commonmark").renderInline(title)
    return (
        f"<details>\n<summary><b>{summary}</b></summary>\n\n{body.strip(chr(10))}"
        "\n\n</details>"
    )


def _quote(title: str, body: str) -> str:
    text = f"**{title}**\n\n{body}" if title else body
    rows = text.strip("\n").split("\n")
    return "\n".join(f"> {row}".rstrip() for row in rows)


def _box(title: str, body: str, directive: Directive) -> str:
    """A block quote, or a fold if the directive's class asks for one."""
    if "dropdown" in directive.classes:
        return fold(title, body)
    return _quote(title, body)


def _body(directive: Directive, converter: Converter) -> str:
    return converter.convert(directive.body, directive.body_line)


def _argument(directive: Directive, converter: Converter) -> str:
    return converter.inline(directive.argument, directive.line)


def _admonition(directive: Directive, converter: Converter) -> str:
    # A named admonition has no title of its own: words after its name are content.
    opening = _argument(directive, converter)
    body = f"{opening}\n\n{_body(directive, converter)}".strip("\n")
    return _box(ADMONITIONS[directive.name], body, directive)


def _titled(directive: Directive, converter: Converter) -> str:
    title = _argument(directive, converter)
    return _box(title, _body(directive, converter), directive)


def _dropdown(directive: Directive, converter: Converter) -> str:
    return fold(_argument(directive, converter), _body(directive, converter))


def _exercise(directive: Directive, converter: Converter) -> str:
    title = _exercise_title(directive, converter)
    return _box(title, _body(directive, converter), directive)


def _exercise_title(directive: Directive, converter: Converter) -> str:
    argument = _argument(directive, converter)
    return f"Exercise: {argument}" if argument else "Exercise"


def _exercise_start(directive: Directive, converter: Converter) -> str:
    title = _exercise_title(directive, converter)
    return f"**{title}**\n\n{_body(directive, converter)}".strip("\n")


def _exercise_end(directive: Directive, converter: Converter) -> str:
    return ""


def _solution(directive: Directive, converter: Converter) -> str:
    title = converter.solution_title(directive)
    return _box(title, _body(directive, converter), directive)


def _button_ref(directive: Directive, converter: Converter) -> str:
    role = directive.options.get("ref-type", "any")
    if role not in ("doc", "ref"):
        wanted = "':ref-type: doc' or ':ref-type: ref'"
        converter.fail(directive.line, f"a {{button-ref}} needs {wanted}")
    words = directive.body.strip()
    content = f"{words} <{directive.argument}>" if words else directive.argument
    return f"**{ROLES[role](content, directive.line, converter)}**"


def _image(directive: Directive, converter: Converter) -> str:
    alt = directive.options.get("alt", "")
    if not alt:
        converter.fail(directive.line, f"the {directive.name} has no alt text")
    address = image_address(directive.argument, directive.line, converter)
    if "width" in directive.options:
        width = escape(directive.options["width"])
        return f'<img src="{address}" alt="{escape(alt)}" width="{width}">'
    return f"![{alt}]({address})"


def _figure(directive: Directive, converter: Converter) -> str:
    image = _image(directive, converter)
    return f"{image}\n\n{_body(directive, converter)}".strip("\n")


def _math(directive: Directive, converter: Converter) -> str:
    formula = f"{directive.argument}\n{directive.body}".strip()
    if re.search(r"\n\s*\n", formula):
        converter.fail(directive.line, "a formula with a blank line inside")
    label = directive.options.get("label")
    return display(formula, label, converter)


def display(formula: str, label: str | None, converter: Converter) -> str:
    """A formula on its own lines, with the number that the site gives it.

    Args:
        formula: LaTeX.
        label: Its label, if it has one.
        converter: Knows the book's labels.

    Returns:
        Markdown.
    """
    if label:
        number = converter.source.targets.labels[label.lower()].title.strip("()")
        formula = f"{formula} \\tag{{{number}}}"
    return f"$$\n{formula}\n$$"


def _table(directive: Directive, converter: Converter) -> str:
    return _captioned(directive, converter, _body(directive, converter))


def _captioned(directive: Directive, converter: Converter, body: str) -> str:
    caption = _argument(directive, converter)
    return f"**{caption}**\n\n{body}" if caption else body


def _list_table(directive: Directive, converter: Converter) -> str:
    rows = _rows(directive, converter)
    if int(directive.options.get("header-rows", "0")) != 1:
        converter.fail(directive.line, "a {list-table} needs ':header-rows: 1'")
    if len({len(row) for row in rows}) != 1:
        converter.fail(directive.line, "the rows of a {list-table} differ in length")
    rows.insert(1, ["---"] * len(rows[0]))
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return _captioned(directive, converter, body)


def _rows(directive: Directive, converter: Converter) -> list[list[str]]:
    """Reads the cells of a nested list; each cell is one paragraph or empty."""
    rows: list[list[str]] = []
    depth = 0
    for token in converter.source.parser.parse(directive.body):
        depth += token.nesting * (token.type.startswith("list_item"))
        if token.type == "list_item_open":
            if depth == 1:
                rows.append([])
            else:
                rows[-1].append("")
        elif token.type == "inline":
            text = converter.inline(token.content, directive.line)
            rows[-1][-1] += text.replace("\n", " ").replace("|", "\\|")
    return rows


def _code(directive: Directive, converter: Converter) -> str:
    ticks = max((len(run) for run in re.findall("`+", directive.body)), default=0)
    fence = "`" * max(3, ticks + 1)
    code = f"{fence}{directive.argument}\n{directive.body}\n{fence}"
    caption = directive.options.get("caption", "")
    return f"{converter.inline(caption, directive.line)}\n\n{code}".strip("\n")


def _tab_set(directive: Directive, converter: Converter) -> str:
    return _body(directive, converter)


def _tab_item(directive: Directive, converter: Converter) -> str:
    title = _argument(directive, converter)
    return f"**{title}**\n\n{_body(directive, converter)}"


Handler = Callable[[Directive, "Converter"], str]
DIRECTIVES: dict[str, Handler] = {
    **dict.fromkeys(ADMONITIONS, _admonition),
    **dict.fromkeys(("admonition", "topic", "sidebar", "margin"), _titled),
    **dict.fromkeys(("code", "code-block", "sourcecode"), _code),
    "button-ref": _button_ref,
    "dropdown": _dropdown,
    "exercise": _exercise,
    "exercise-end": _exercise_end,
    "exercise-start": _exercise_start,
    "figure": _figure,
    "image": _image,
    "list-table": _list_table,
    "math": _math,
    "solution": _solution,
    "tab-item": _tab_item,
    "tab-set": _tab_set,
    "table": _table,
}
