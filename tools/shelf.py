"""The chapters of the book beside their notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import addresses
import stored
from chapters import Chapter, read
from targets import Source


@dataclass(frozen=True)
class Shelf:
    """The chapters of a book beside their notebooks.

    Attributes:
        source: The hand-written book.
        addresses: Where it is published.
    """

    source: Source
    addresses: addresses.Addresses

    @cached_property
    def chapters(self) -> dict[str, Chapter]:
        """Every chapter of the table of contents, read once."""
        pages = self.source.targets.chapters
        return {page: read(self.source, page) for page in pages}

    @cached_property
    def runs(self) -> dict[str, stored.Run | None]:
        """What the committed notebooks record."""
        return {page: stored.load(self.source.root, page) for page in self.chapters}

    @cached_property
    def orphans(self) -> list[str]:
        """Notebooks without a chapter."""
        folder = self.source.root / "notebooks"
        found = (p.relative_to(folder) for p in folder.rglob("*.ipynb"))
        pages = (p.with_suffix("").as_posix() for p in found)
        return sorted(page for page in pages if page not in self.chapters)

    def stale(self, page: str) -> list[str]:
        """What changed since a chapter ran; see :func:`stored.stale`."""
        return stored.stale(self.source, self.chapters[page], self.runs[page])

    def text(self, page: str, run: stored.Run | None = None) -> str:
        """A chapter's notebook with the outputs of a run, by default the stored one."""
        run = run or self.runs[page]
        return stored.text(self.source, self.addresses, self.chapters[page], run)

    def differs(self, page: str) -> bool:
        """Whether a fresh chapter's notebook needs to be exported again."""
        place = stored.path(self.source.root, page)
        return place.read_text(encoding="utf-8") != self.text(page)
