"""Renders every admonition of class ``dropdown`` as ``<details>``.

A solution then opens without JavaScript, by keyboard, and by the browser's own
search in the page.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.locale import admonitionlabels
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator


class details(nodes.General, nodes.Element):
    """A box that the reader opens."""


class summary(nodes.General, nodes.TextElement):
    """The part of a ``details`` box that is always visible."""


class Disclose(SphinxPostTransform):
    """Replaces collapsed admonitions, once their titles are resolved."""

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        """Replaces them all."""
        # sphinx-exercise wraps every body in a section of one and the same id.
        for node in list(self.document.findall(nodes.section)):
            if node["ids"] in (["exercise-content"], ["solution-content"]):
                # Not replace_self, which would hand the id on to the first child.
                node.parent.replace(node, node.children)
        for node in list(self.document.findall(nodes.Admonition)):
            if "dropdown" in node["classes"]:
                node.replace_self(self.disclosed(node))

    @staticmethod
    def disclosed(node: nodes.Element) -> details:
        """Returns the ``details`` box with an admonition's title and content."""
        children = list(node.children)
        if children and isinstance(children[0], nodes.title):
            # As text: a link in a summary would compete with opening the box.
            label = children.pop(0).astext()
        else:
            label = admonitionlabels.get(node.tagname, "Details")
        kept = [name for name in node["classes"] if name != "dropdown"]
        title = summary("", label, classes=["admonition-title"])
        return details(
            "", title, *children, ids=node["ids"], classes=["admonition", *kept]
        )


def visit(translator: HTML5Translator, node: nodes.Element) -> None:
    """Opens the element of a node's own name."""
    translator.body.append(translator.starttag(node, node.tagname))


def depart(translator: HTML5Translator, node: nodes.Element) -> None:
    """Closes it."""
    translator.body.append(f"</{node.tagname}>\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the transform and its two nodes."""
    app.add_node(details, html=(visit, depart))
    app.add_node(summary, html=(visit, depart))
    app.add_post_transform(Disclose)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
