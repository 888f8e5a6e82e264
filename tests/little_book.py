"""A book of three pages, small enough to build, execute and break in a test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEADER = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---
"""

CONFIG = """\
title: A little book
execute:
  execute_notebooks: cache
  cache: _build/.jupyter_cache
  raise_on_error: true
repository:
  url: https://github.com/owner/little
  path_to_book: book
  branch: main
parse:
  myst_enable_extensions: [colon_fence, deflist, dollarmath, linkify]
sphinx:
  extra_extensions: [sphinx_exercise, sphinx_design]
  config:
    book_ref: v1
    bibtex_reference_style: author_year
bibtex_bibfiles: [references.bib]
html:
  baseurl: https://book.example/
"""

TOC = """\
format: jb-book
root: intro
chapters:
  - file: part/first
  - file: part/second
"""

INTRO = """\
# A little book

```{glossary}
pure function
  Its output depends on its arguments alone.

VMEM
  Memory on the die.
```

```{bibliography}
```
"""

FIRST = f"""\
{HEADER}
# What is one and one?

Two, as {{doc}}`second` says.

```{{code-cell}} python
from helpers import units

one = units.double(1)
print(one)
```

Now again.

```{{code-cell}} python
one + 1
```
"""

SECOND = f"""\
{HEADER}
# What is two and two?

```{{code-cell}} python
2 + 2
```
"""

BIB = """\
@article{one, author = {Ada L{\\"u}gner}, title = {On one}, year = 2001}
@article{three, author = {Ada One and Bea Two and Cy Three}, title = {On three},
  year = 2003}
"""

REQUIREMENTS = """\
jax==0.10.2
jaxlib==0.10.2
libtpu==0.0.42.1; sys_platform == "linux" and platform_machine == "x86_64"
numpy==2.3.5
sphinx==7.4.7
"""

PYPROJECT = """\
[project]
name = "little"
dependencies = ["jax>=0.10.2", "numpy>=2.0"]

[project.optional-dependencies]
torch = ["torch==2.13.0"]
"""

HELPERS = {
    "__init__": "",
    "env": "def prepare():\n    pass\n\n\ndef describe():\n    return 'here'\n",
    "deep": "FACTOR = 2\n",
    "units": "from .deep import FACTOR\n\n\ndef double(x):\n    return FACTOR * x\n",
    "unused": "",
}


def write(root: Path, **pages: str) -> Path:
    """Writes the book.

    Args:
        root: An empty folder.
        pages: Sources that replace or extend those of this module, by the last part
            of their name.

    Returns:
        The folder.
    """
    sources = {"intro": INTRO, "part/first": FIRST, "part/second": SECOND}
    texts = {f"book/{page}.md": text for page, text in sources.items()}
    texts |= {f"book/part/{page}.md": text for page, text in pages.items()}
    texts |= {f"helpers/{name}.py": text for name, text in HELPERS.items()}
    texts |= {"_config.yml": CONFIG, "_toc.yml": TOC, "book/references.bib": BIB}
    texts |= {"helpers/deep.toml": "x = 1\n", "helpers/unused.toml": "x = 1\n"}
    texts |= {"helpers/deep.js": "1;\n", "helpers/deep.css": "& { top: 1px; }\n"}
    texts |= {"requirements.txt": REQUIREMENTS, "pyproject.toml": PYPROJECT}
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def build_site(root: Path) -> str:
    """Builds the book's site as Jupyter Book does.

    Args:
        root: The book's folder.

    Returns:
        What the build printed.
    """
    files = ("--config", root / "_config.yml", "--toc", root / "_toc.yml")
    main = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", main, "build", root / "book"]
    done = subprocess.run(
        [*command, *files, "--path-output", root, "-n", "--keep-going"],
        cwd=root,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
