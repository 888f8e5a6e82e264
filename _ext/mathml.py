"""Renders formulas while building: no script, no request, no layout shift."""

from __future__ import annotations

import formulas
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)


def rendered(node: nodes.math | nodes.math_block, display: bool) -> str:
    """Returns a formula as MathML; one that cannot be rendered is a warning."""
    try:
        return formulas.mathml(node.astext(), display)
    except ValueError as error:
        LOGGER.warning("%s", error, location=node)
        return ""


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Writes a formula inside a sentence."""
    translator.body.append(rendered(node, display=False))
    raise nodes.SkipNode


def visit_display(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Writes a displayed formula and, if it has one, its number."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(rendered(node, display=True))
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
