"""Tells nbval which cells this machine cannot run: a plugin for ``pytest -p``."""

from __future__ import annotations

import importlib.util

import pytest

PREFIX = "needs-"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips, visibly, each notebook cell whose tag names a package that is missing.

    Args:
        items: What pytest collected; a notebook's items carry their cell.
    """
    for item in items:
        cell = getattr(item, "cell", None)
        tags = cell.metadata.get("tags", []) if cell is not None else []
        for tag in tags:
            package = tag.removeprefix(PREFIX)
            if tag != package and importlib.util.find_spec(package) is None:
                reason = f"the cell needs {package}, which is not installed"
                item.add_marker(pytest.mark.skip(reason=reason))
