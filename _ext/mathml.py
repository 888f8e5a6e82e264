"""Renders formulas as MathML while building: no script, no request, no layout shift."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert_to_element
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)
# TeX puts a thin space between a function's name and an argument without brackets.
SPACED = {"log", "ln", "exp", "sin", "cos", "tanh", "max", "min", "arg", "sup", "inf"}


def mathml(latex: str, display: bool, where: nodes.Node) -> str:
    """Converts a formula.

    Args:
        latex: The formula as LaTeX, without dollar signs.
        display: Whether it stands on its own line.
        where: The node that a warning should point at.

    Returns:
        A ``<math>`` element. What cannot be converted is a warning, so the build fails.
    """
    # latex2mathml knows `split`, the same layout, but not `aligned`.
    source = latex.strip().replace("{aligned}", "{split}")
    braces = re.sub(r"\\.", "", source)
    root = convert_to_element(source, display="block" if display else "inline")
    unknown = [text for text in root.itertext() if text.startswith("\\")]
    if unknown or braces.count("{") != braces.count("}"):
        reason = f"unknown {', '.join(unknown)}" if unknown else "unbalanced braces"
        LOGGER.warning("cannot render %r: %s", latex, reason, location=where)
    for row in root.iter():
        for index, item in reversed(list(enumerate(row))):
            if item.tag == "mi" and item.text in SPACED:
                space = ElementTree.Element("mspace", width="0.167em")
                row.insert(index + 1, space)
    root.set("alttext", latex.strip())
    return ElementTree.tostring(root, encoding="unicode")


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Writes a formula inside a sentence."""
    translator.body.append(mathml(node.astext(), False, node))
    raise nodes.SkipNode


def visit_display(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Writes a displayed formula and, if it has one, its number."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(mathml(node.astext(), True, node))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the renderer; ``html_math_renderer: mathml`` selects it."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
