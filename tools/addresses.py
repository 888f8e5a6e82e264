"""Where the book lives: the one reader of the addresses in ``_config.yml``.

Everything that prints an address (launch buttons, exported notebooks, the set-up
cell, the workflows) asks here, so a fork changes four lines or four variables.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Addresses:
    """The book's addresses.

    Attributes:
        repository: ``https://github.com/OWNER/NAME``, without a trailing slash.
        branch: The branch whose ``notebooks/`` the launch buttons open.
        ref: The tag or commit from which a hosted notebook installs ``helpers``.
        site: The published site, with a trailing slash.
    """

    repository: str
    branch: str
    ref: str
    site: str

    @property
    def slug(self) -> str:
        """``OWNER/NAME``, as Colab's address wants it."""
        return self.repository.removeprefix("https://github.com/")

    def notebook(self, chapter: str) -> str:
        """The path of a chapter's notebook inside the repository."""
        return f"notebooks/{chapter}.ipynb"

    def colab(self, chapter: str) -> str:
        """The address that opens a chapter in Colab."""
        path = f"{self.slug}/blob/{self.branch}/{self.notebook(chapter)}"
        return f"https://colab.research.google.com/github/{path}"

    def kaggle(self, chapter: str) -> str:
        """The address that opens a chapter on Kaggle."""
        source = f"{self.repository}/blob/{self.branch}/{self.notebook(chapter)}"
        return f"https://kaggle.com/kernels/welcome?src={source}"

    def page(self, document: str) -> str:
        """The address of a page of the published site."""
        return f"{self.site}{document}.html"


def load(config: Path = ROOT / "_config.yml") -> Addresses:
    """Reads the addresses; a ``BOOK_*`` environment variable wins over the file.

    Args:
        config: The book's configuration file.

    Returns:
        The addresses in force.

    Raises:
        ValueError: If the repository is not a GitHub address or a value is empty.
    """
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    repository = settings["repository"]
    values = {
        "repository": repository["url"].rstrip("/"),
        "branch": repository["branch"],
        "ref": settings["sphinx"]["config"]["book_ref"],
        "site": settings["html"]["baseurl"].rstrip("/") + "/",
    }
    for name in values:
        values[name] = os.environ.get(f"BOOK_{name.upper()}", "") or values[name]
    values["repository"] = values["repository"].rstrip("/").removesuffix(".git")
    values["site"] = values["site"].rstrip("/") + "/"
    if not values["repository"].startswith("https://github.com/"):
        raise ValueError(
            "repository must start with https://github.com/ (Colab opens notebooks "
            f"from there), got {values['repository']!r}"
        )
    return Addresses(**values)
