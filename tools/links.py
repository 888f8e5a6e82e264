"""Checks that the links which leave the built site still lead somewhere."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urldefrag

import addresses
import requests
from bs4 import BeautifulSoup
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

TIMEOUT_S = 30
CONNECTIONS = 8
# These answer robots with a refusal though a reader's browser gets the page.
REFUSALS = (401, 403, 405, 429)


def external_links(site: Path, own: Iterable[str]) -> dict[str, list[str]]:
    """Collects the addresses that pages link to on other hosts.

    Args:
        site: The built site.
        own: Parts of the book's own addresses. Links to those are left out: what they
            lead to may only come with the next deployment.

    Returns:
        For each address, without its fragment, the pages that link to it.
    """
    found = defaultdict(list)
    for page in sorted(site.rglob("*.html")):
        soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
        for anchor in soup.find_all("a", href=True):
            address = urldefrag(anchor["href"]).url
            if address.startswith(("http://", "https://")):
                if not any(part in address for part in own):
                    found[address].append(page.relative_to(site).as_posix())
    return dict(found)


def session() -> requests.Session:
    """A session that tries again, with growing pauses, before it gives up."""
    again = Retry(total=3, backoff_factor=2, status_forcelist=(500, 502, 503, 504))
    made = requests.Session()
    made.headers["User-Agent"] = "book-link-check"
    for scheme in ("http://", "https://"):
        made.mount(scheme, HTTPAdapter(max_retries=again, pool_maxsize=CONNECTIONS))
    return made


def fault(client: requests.Session, address: str) -> str | None:
    """Says what is wrong with an address.

    Args:
        client: The session to ask with.
        address: The address.

    Returns:
        The reason, or ``None`` if the address leads somewhere.
    """
    try:
        with client.get(address, timeout=TIMEOUT_S, stream=True) as answer:
            if answer.ok or answer.status_code in REFUSALS:
                return None
            return f"answers {answer.status_code}"
    except requests.RequestException as error:
        return f"cannot be reached ({type(error).__name__})"


def main(site: Path) -> int:
    """Checks every external link of a built site.

    Args:
        site: The built site.

    Returns:
        The number of links that lead nowhere.
    """
    if not site.is_dir():
        print(f"There is no site in {site}; build it with: make book")
        return 1
    in_force = addresses.load()
    links = external_links(site, (in_force.site, in_force.slug))
    client = session()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        faults = list(pool.map(lambda address: fault(client, address), links))
    broken = {a: why for a, why in zip(links, faults, strict=True) if why}
    for address, why in broken.items():
        print(f"{address} {why}; linked from {', '.join(sorted(set(links[address])))}")
    print(f"Links: {len(links) - len(broken)} lead somewhere, {len(broken)} do not.")
    return len(broken)


if __name__ == "__main__":
    sys.exit(min(main(addresses.ROOT / "_build" / "html"), 1))
