"""Gives each chapter its row of links: Colab, Kaggle and the notebook itself.

The theme would link Colab to the Markdown source; the book's readers need the
exported notebook, and links in the page work without JavaScript.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import addresses
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)

ROW = """</h1>
<ul class="launch noprint" aria-label="Run this chapter">
<li><a href="{colab}">Open in Colab</a></li>
<li><a href="{kaggle}">Open in Kaggle</a></li>
<li><a href="{notebook}" download>Download notebook</a></li>
</ul>"""


def add_row(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], _: nodes.document
) -> None:
    """Puts the links under the title of a page that is a notebook."""
    context["header_buttons"] = []
    if "kernelspec" not in app.env.metadata.get(page, {}):
        return
    book = addresses.load(Path(app.srcdir).parent / "_config.yml")
    links = ROW.format(
        colab=book.colab(page),
        kaggle=book.kaggle(page),
        notebook=context["pathto"](book.notebook(page), 1),
    )
    context["body"] = context["body"].replace("</h1>", links, 1)


def copy_notebooks(app: Sphinx, error: Exception | None) -> None:
    """Copies each chapter's exported notebook into the site."""
    if error is not None or app.builder.name != "html":
        return
    for page, metadata in app.env.metadata.items():
        if "kernelspec" in metadata:
            path = Path("notebooks", f"{page}.ipynb")
            source = Path(app.srcdir).parent / path
            if not source.exists():
                LOGGER.warning("%s is missing: run `make notebooks`", path)
                continue
            target = Path(app.outdir, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers both steps; the row comes after the theme filled its buttons."""
    app.connect("html-page-context", add_row, priority=900)
    app.connect("build-finished", copy_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
