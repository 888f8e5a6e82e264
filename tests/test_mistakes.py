"""The index of mistakes: complete, sorted by what a reader sees, and linked."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup
from conftest import ROOT
from little_book import CONFIG, SECOND, TOC, build_site, write

CHAPTERS = [
    path
    for path in sorted((ROOT / "book").rglob("*/*.md"))
    if "\n## Where it breaks\n" in path.read_text(encoding="utf-8")
]
BREAKS = """
## Where it breaks

### A product of `two` texts

```{code-cell} python
import contextlib
import types

errors = types.SimpleNamespace(raises=contextlib.suppress, warns=None)
with errors.raises(TypeError):
    "a" * "b"
```

### A sum nobody takes

```{code-cell} python
1 + 1
```

## Takeaways
"""


def listed(page: BeautifulSoup, heading: str) -> dict[str, list[str]]:
    """The entries of one half of the index: by term, the text of each link."""
    (section,) = (
        s for s in page.select("section section") if s.h2.text[:-1] == heading
    )
    return {
        term.text: [link.text for link in term.find_next_sibling("dd").select("a")]
        for term in section.select("dl.mistakes > dt")
    }


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_the_index_links_every_mistake_of_a_chapter(chapter, pages):
    text = chapter.read_text(encoding="utf-8").partition("\n## Where it breaks\n")[2]
    headings = re.findall(r"^### (.+)$", text.partition("\n## ")[0], re.M)
    assert headings
    page = chapter.relative_to(ROOT / "book").with_suffix(".html").as_posix()
    links = pages["mistakes.html"].select(f'dl.mistakes a[href^="{page}#"]')
    assert sorted({link.text for link in links}) == sorted(
        heading.replace("`", "") for heading in headings
    )


def test_mistakes_that_raise_stand_apart_from_silent_ones(pages):
    raised = listed(pages["mistakes.html"], "Something is raised")
    silent = listed(pages["mistakes.html"], "Nothing complains")
    assert "A value that escapes" in raised["UnexpectedTracerError"]
    assert "An assignment to an element" in raised["TypeError"]
    assert "An update that goes nowhere" in sum(silent.values(), [])
    assert list(raised) == sorted(raised, key=str.lower)


def test_a_new_mistake_comes_into_the_index_by_itself(tmp_path):
    book = write(tmp_path, first=SECOND + BREAKS)
    (book / "book/mistakes.md").write_text(
        "# Mistakes\n\n## Silent\n\n```{mistakes} silent\n```\n\n"
        "## Raised\n\n```{mistakes} raised\n```\n",
        encoding="utf-8",
    )
    (book / "_toc.yml").write_text(TOC + "  - file: mistakes\n", encoding="utf-8")
    local = f"  local_extensions:\n    mistakes: {ROOT / '_ext'}\n"
    config = CONFIG.replace("  extra_extensions", f"{local}  extra_extensions")
    (book / "_config.yml").write_text(config, encoding="utf-8")
    build_site(book)
    html = (book / "_build/html/mistakes.html").read_text(encoding="utf-8")
    page = BeautifulSoup(html, "html.parser")
    assert listed(page, "Silent") == {"What is two and two?": ["A sum nobody takes"]}
    assert listed(page, "Raised") == {"TypeError": ["A product of two texts"]}
    (link,) = page.select('a[href="part/first.html#a-sum-nobody-takes"]')
