"""The directive ``{mistakes}``: an index of all chapters' "Where it breaks".

``{mistakes} raised`` lists the sections whose cells expect an error or a warning, by
its class, ``{mistakes} silent`` those in which nothing complains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

PLACE = "Where it breaks"
EXPECTED = re.compile(r"errors\.(?:raises|warns)\(\s*([\w.]+)")


class mistakes(nodes.General, nodes.Element):
    """Where the index goes, once all chapters have been read."""


class Mistakes(SphinxDirective):
    """Leaves a place for one half of the index."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Takes the name of the half."""
        if self.arguments[0] not in ("raised", "silent"):
            raise self.error(f"expected raised or silent, got {self.arguments[0]!r}")
        return [mistakes(raised=self.arguments[0] == "raised")]


class FillMistakes(SphinxPostTransform):
    """Puts the index in its places."""

    default_priority = 5

    def run(self, **_: object) -> None:
        """Fills each place on the page."""
        for place in list(self.document.findall(mistakes)):
            place.replace_self(self.index(place["raised"]))

    def sections(self) -> Iterator[tuple[str, nodes.section]]:
        """The chapters' mistakes, in the order of the book."""
        for page in self.env.toctree_includes[self.config.root_doc]:
            for part in self.env.get_doctree(page).findall(nodes.section):
                if part[0].astext() == PLACE:
                    children = part.children
                    found = (c for c in children if isinstance(c, nodes.section))
                    yield from ((page, child) for child in found)

    def index(self, raised: bool) -> nodes.Node:
        """A list of terms: an error's class or a chapter, and its mistakes."""
        groups: dict[str, list[nodes.list_item]] = {}
        for page, section in self.sections():
            code = "\n".join(c.astext() for c in section.findall(nodes.literal_block))
            classes = {name.rpartition(".")[2] for name in EXPECTED.findall(code)}
            if raised != bool(classes):
                continue
            for name in classes or {self.env.titles[page].astext()}:
                groups.setdefault(name, []).append(self.entry(page, section))
        order = sorted(groups, key=str.lower) if raised else list(groups)
        terms = [self.term(name, groups[name], raised) for name in order]
        return nodes.definition_list("", *terms, classes=["mistakes"])

    def entry(self, page: str, section: nodes.section) -> nodes.list_item:
        """A link to one mistake, in the words of its heading."""
        address = self.app.builder.get_relative_uri(self.env.docname, page)
        words = [child.deepcopy() for child in section[0].children]
        link = nodes.reference("", "", *words, internal=True)
        link["refuri"] = f"{address}#{section['ids'][0]}"
        return nodes.list_item("", nodes.paragraph("", "", link))

    def term(
        self, name: str, entries: list[nodes.list_item], raised: bool
    ) -> nodes.definition_list_item:
        """One group."""
        word = nodes.literal("", name) if raised else nodes.Text(name)
        body = nodes.definition("", nodes.bullet_list("", *entries))
        return nodes.definition_list_item("", nodes.term("", "", word), body)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directive and what fills it."""
    app.add_node(mistakes)
    app.add_directive("mistakes", Mistakes)
    app.add_post_transform(FillMistakes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
