"""Puts the addresses in force into the configuration that Sphinx and the theme read.

``tools/addresses.py`` is the one reader of addresses, so an environment variable
reaches every canonical link, card and sitemap entry of the built site.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import addresses
from sphinx.application import Sphinx
from sphinx.config import Config


def apply(app: Sphinx, config: Config) -> None:
    """Overrides the settings that hold an address.

    Args:
        app: The Sphinx application, whose sources lie one level below the root.
        config: The configuration to change.
    """
    book = addresses.load(Path(app.srcdir).parent / "_config.yml")
    config.book_ref = book.ref
    config.html_baseurl = config.ogp_site_url = book.site
    config.ogp_image = book.site + "_static/card.png"
    config.notfound_urls_prefix = urlsplit(book.site).path
    options = config.html_theme_options
    options["repository_url"] = book.repository
    options["repository_branch"] = book.branch


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension ahead of those that read what it sets."""
    app.add_config_value("book_ref", "", "env", str)
    app.connect("config-inited", apply, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
