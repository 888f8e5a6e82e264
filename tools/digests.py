"""What the stored outputs of a chapter depend on, as digests."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from chapters import Chapter, ChapterError
from pins import execution_pins
from targets import Source


def digests(source: Source, chapter: Chapter) -> dict[str, str]:
    """What the stored outputs of a chapter depend on.

    Args:
        source: The hand-written book.
        chapter: One of its chapters.

    Returns:
        A SHA-256 of the code cells with their tags, of the helpers that they reach,
        and of the pins that bear on execution.
    """
    code = [[cell.source, cell.metadata.get("tags", [])] for cell in chapter.code]
    sources = {
        path.relative_to(source.root).as_posix(): path.read_text(encoding="utf-8")
        for path in helper_files(source, chapter)
    }
    lines = execution_pins(source.root, chapter.needs)
    return {"code": _sha(code), "helpers": _sha(sources), "pins": _sha(lines)}


def _sha(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def helper_files(source: Source, chapter: Chapter) -> list[Path]:
    """The helper modules that a chapter imports, those that they import, their tables.

    The table of a module is the TOML file beside it of the same name; the scripts and
    styles of the interactive figures lie there too.

    Args:
        source: The hand-written book.
        chapter: One of its chapters.

    Returns:
        Their files in alphabetical order.

    Raises:
        ChapterError: If a cell is not plain Python.
    """
    # The set-up cell imports env, whatever the chapter does.
    waiting = ["helpers.env"]
    for cell in chapter.code:
        try:
            waiting += _imports(cell.source, package="")
        except SyntaxError as error:
            start = cell.source.split("\n")[0]
            raise ChapterError(
                f"{source.file(chapter.page)}: expected plain Python in the cell "
                f"{start!r}, got {error.msg} in its line {error.lineno}"
            ) from None
    found: set[Path] = set()
    while waiting:
        for path, package in _modules(source.root, waiting.pop()):
            if path not in found:
                found.add(path)
                waiting += _imports(path.read_text(encoding="utf-8"), package)
    suffixes = (".toml", ".js", ".css")
    tables = {path.with_suffix(suffix) for path in found for suffix in suffixes}
    return sorted(found | {table for table in tables if table.is_file()})


def _imports(text: str, package: str) -> Iterator[str]:
    """The modules that may be meant by the import statements of a source."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join(
                [*(above if node.level else []), *filter(None, [node.module])]
            )
            # ``from a import b`` may name a module b or a thing in a.
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _modules(root: Path, module: str) -> Iterator[tuple[Path, str]]:
    """The files that importing a module runs, each with its package."""
    parts = module.split(".")
    if parts[0] != "helpers":
        return
    for depth in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:depth])
        if (place / "__init__.py").is_file():
            yield place / "__init__.py", ".".join(parts[:depth])
        elif place.with_suffix(".py").is_file():
            yield place.with_suffix(".py"), ".".join(parts[: depth - 1])
