"""Reads the pins that bear on what a chapter's cells compute."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

# JAX's own halves, which nobody declares beside it.
COMPANIONS = ("jaxlib", "libtpu")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def package_of(requirement: str) -> str:
    """The package that a requirement is about, in the normal spelling."""
    return re.sub(r"[-_.]+", "-", _NAME.match(requirement)[0]).lower()


def pins(root: Path) -> dict[str, str]:
    """Every pin of the book's environment.

    Args:
        root: The book's root, which holds ``requirements.txt``.

    Returns:
        The line of each package, with its condition if it has one.
    """
    lines = (root / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return {
        package_of(line): line for line in lines if line and not line.startswith("#")
    }


def execution_pins(root: Path, extras: set[str]) -> list[str]:
    """The pins of what a chapter may import.

    Chapters may import what ``pyproject.toml`` declares for the helpers, so those pins
    count, and no others: a new theme for the site must not make every notebook stale.

    Args:
        root: The book's root.
        extras: Which of the helpers' extras the chapter needs.

    Returns:
        Lines of ``requirements.txt``, and of the extras, in alphabetical order.
    """
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    pinned = pins(root)
    declared = [package_of(line) for line in project["dependencies"]] + list(COMPANIONS)
    optional = project.get("optional-dependencies", {})
    chosen = [
        line for extra in sorted(extras & set(optional)) for line in optional[extra]
    ]
    return sorted(
        [pinned[package] for package in declared if package in pinned] + chosen
    )


def exact(line: str) -> str:
    """The version that a pin names.

    Args:
        line: Such as ``jax==0.10.2``, perhaps with a condition.

    Returns:
        The version alone.

    Raises:
        ValueError: If the line does not pin one version.
    """
    match = re.search(r"==\s*([^\s;]+)", line)
    if match is None:
        raise ValueError(f"expected a pin such as 'jax==0.10.2', got {line!r}")
    return match[1]
