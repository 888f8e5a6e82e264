"""Hands the committed outputs to the site's execution cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from chapters import Chapter
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn, JupyterCacheAbstract
from nbformat import NotebookNode
from stored import Run

FOLDER = "_build/.jupyter_cache"


@contextmanager
def opened(root: Path) -> Iterator[JupyterCacheAbstract]:
    """Opens the cache that the site's configuration names.

    Args:
        root: The book's root.

    Yields:
        The cache; its database is closed afterwards.
    """
    cache = get_cache(root / FOLDER)
    try:
        yield cache
    finally:
        cache.db.dispose()


def seed(cache: JupyterCacheAbstract, chapter: Chapter, run: Run) -> bool:
    """Puts a chapter's outputs where the site looks for them.

    Args:
        cache: The site's cache.
        chapter: As the site reads it: the cache is keyed by these code cells.
        run: Its outputs; those of the set-up cell, which the site lacks, are left out.

    Returns:
        Whether the cache held something else before.
    """
    notebook = _notebook(chapter)
    for cell, outputs, count in zip(
        notebook.cells, run.outputs[1:], run.counts[1:], strict=True
    ):
        cell.outputs, cell.execution_count = outputs, count
    if _cached(cache, notebook) == [cell.outputs for cell in notebook.cells]:
        return False
    bundle = CacheBundleIn(
        notebook, f"{chapter.page}.md", data={"execution_seconds": run.seconds}
    )
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    return True


def forget(cache: JupyterCacheAbstract, chapter: Chapter) -> None:
    """Removes what an earlier state of the helpers or the pins put out.

    Args:
        cache: The site's cache, which does not know of helpers and pins.
        chapter: A stale chapter.
    """
    notebook = _notebook(chapter)
    if _cached(cache, notebook) is not None:
        cache.remove_cache(cache.match_cache_notebook(notebook).pk)


def _notebook(chapter: Chapter) -> NotebookNode:
    cells = [nbformat.from_dict(cell) for cell in chapter.code]
    metadata = {"kernelspec": chapter.kernelspec}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def _cached(
    cache: JupyterCacheAbstract, notebook: NotebookNode
) -> list[list[NotebookNode]] | None:
    """The outputs that the cache holds for these code cells, if any."""
    try:
        record = cache.match_cache_notebook(notebook)
    except KeyError:
        return None
    cells = cache.get_cache_bundle(record.pk).nb.cells
    return [cell.outputs for cell in cells]
