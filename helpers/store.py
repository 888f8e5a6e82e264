"""Keeps results on disk by what they were made from.

An entry is one compressed file whose name is a digest of everything that the result
depends on. It appears whole or not at all, and one that cannot be read is made again.
Where no folder can be written, nothing is kept and everything still works.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["digest", "folder", "kept"]

T = TypeVar("T")


def folder() -> Path | None:
    """Where entries are kept.

    Returns:
        The folder that ``BOOK_CACHE`` names, or one in the user's cache; None if
        ``BOOK_CACHE`` is empty, which switches keeping off.
    """
    named = os.environ.get("BOOK_CACHE")
    if named is not None:
        return Path(named) if named else None
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, "pure-functions-to-pods")


def digest(parts: Iterable[str]) -> str:
    """Names a result by what it was made from.

    Args:
        parts: Texts; their order and their borders count.

    Returns:
        64 hexadecimal digits.
    """
    joined = hashlib.sha256()
    for part in parts:
        data = part.encode()
        joined.update(f"{len(data)}:".encode() + data)
    return joined.hexdigest()


def kept(name: str, make: Callable[[], Any], read: Callable[[Any], T]) -> T:
    """Takes a result from disk, or makes it and keeps it.

    Args:
        name: The result's ``digest``.
        make: Makes what is stored, of values that JSON can express.
        read: Makes the result from what is stored; raises ``ValueError`` for an entry
            that is none.

    Returns:
        The result.
    """
    place = folder()
    if place is None:
        return read(make())
    path = place / f"{name}.json.gz"
    # Truncated or altered: gzip and json each raise errors of their own.
    with contextlib.suppress(OSError, EOFError, ValueError, zlib.error):
        return read(json.loads(gzip.decompress(path.read_bytes())))
    stored = make()
    with contextlib.suppress(OSError):
        _write(path, gzip.compress(json.dumps(stored).encode(), compresslevel=3))
    return read(stored)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(scratch, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise
