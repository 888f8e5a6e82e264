"""The directive ``{status-table}``: each chapter's last run, from its notebook.

The figures are those that ``tools/notebooks.py`` stored when it executed the chapter.
"""

from __future__ import annotations

import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

HEADINGS = ("Chapter", "Last run", "Time", "Python", "JAX", "libtpu", "PyTorch")


class StatusTable(SphinxDirective):
    """A table with one row per executed notebook."""

    def run(self) -> list[nodes.Node]:
        """Reads the notebooks and builds the table."""
        folder = Path(self.env.srcdir).parent / "notebooks"
        rows = [nodes.paragraph("", heading) for heading in HEADINGS]
        lines = [nodes.row("", *(nodes.entry("", cell) for cell in rows))]
        # The map of the contents is there before the first page is read.
        for page in self.env.external_site_map:
            path = folder / f"{page}.ipynb"
            if not path.exists():
                continue
            self.env.note_dependency(str(path))
            metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]["book"]
            lines.append(self.row(page, metadata))
        columns = [nodes.colspec(colwidth=1) for _ in HEADINGS]
        head, body = nodes.thead("", lines[0]), nodes.tbody("", *lines[1:])
        group = nodes.tgroup("", *columns, head, body, cols=len(HEADINGS))
        return [nodes.table("", group)]

    def row(self, page: str, run: dict) -> nodes.row:
        """One chapter: its title as a link, and the figures of its run."""
        title, _ = self.parse_inline(f"{{doc}}`/{page}`")
        versions = [
            run["versions"].get(name, "none")
            for name in ("python", "jax", "libtpu", "torch")
        ]
        figures = [run["executed"], f"{run['seconds']:.0f} s", *versions]
        cells = [nodes.paragraph("", "", *title)]
        cells += [nodes.paragraph("", figure) for figure in figures]
        return nodes.row("", *(nodes.entry("", cell) for cell in cells))


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directive."""
    app.add_directive("status-table", StatusTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
