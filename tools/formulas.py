"""LaTeX formulas as MathML, which browsers draw without a script."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

from latex2mathml.converter import convert_to_element

SPACED = {"log", "ln", "exp", "sin", "cos", "tanh", "max", "min", "arg", "sup", "inf"}

BRACKETS = (["(", ")"], ["[", "]"], ["{", "}"], ["|", "|"], ["‖", "‖"])


def mathml(latex: str, display: bool) -> str:
    """Converts a formula.

    Args:
        latex: The formula as LaTeX, without dollar signs.
        display: Whether it stands on its own line.

    Returns:
        A ``<math>`` element.

    Raises:
        ValueError: If latex2mathml would leave out or misread a part.
    """
    source = latex.strip()
    if r"\\" in source and r"\begin" not in source:
        source = rf"\begin{{split}}{source}\end{{split}}"
    # latex2mathml lacks `aligned`, which is laid out as `split` is, and numbers the
    # lines of `align`, which is Sphinx's business.
    source = source.replace("{aligned}", "{split}").replace("{align}", "{align*}")
    try:
        root = convert_to_element(source, display="block" if display else "inline")
    except Exception as error:  # its exceptions have no base class of their own
        problem = type(error).__name__
        raise ValueError(f"cannot render {latex!r}: {problem}") from error
    for item in root.iter():
        item.text = unescape(item.text or "")
    if problem := _fault(source, root):
        raise ValueError(f"cannot render {latex!r}: {problem}")
    _space_functions(root)
    _group_matrices(root)
    root.set("alttext", source)
    return ElementTree.tostring(root, encoding="unicode")


def _fault(source: str, root: ElementTree.Element) -> str:
    """Says what latex2mathml passed over in silence, or nothing."""
    braces = re.sub(r"\\.", "", source)
    if braces.count("{") != braces.count("}"):
        return "unbalanced braces"
    if unknown := [text for text in root.itertext() if text.startswith("\\")]:
        return f"unknown {', '.join(unknown)}"
    if root.find(".//mspace[@linebreak]") is not None:
        return "a line break outside split, aligned, align and matrices"
    return ""


def _space_functions(root: ElementTree.Element) -> None:
    """Puts the thin space that TeX puts between a function's name and its argument."""
    for row in root.iter():
        for index in reversed(range(len(row) - 1)):
            if row[index].text in SPACED and row[index + 1].text not in ("(", "["):
                row.insert(index + 1, ElementTree.Element("mspace", width="0.167em"))


def _group_matrices(root: ElementTree.Element) -> None:
    """Keeps a matrix's brackets from growing to the height of the whole formula."""
    for row in list(root.iter()):
        for table in row.findall("mtable"):
            start = list(row).index(table) - 1
            group = row[start : start + 3] if start >= 0 else []
            if [item.text for item in group if item.tag == "mo"] in BRACKETS:
                whole = ElementTree.Element("mrow")
                whole.extend(group)
                row[start : start + 3] = [whole]
