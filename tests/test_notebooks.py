"""The notebooks: made, found stale, handed to the site; each fault planted once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import addresses
import chapters
import little_book
import nbformat
import pytest
import stored
from digests import digests, helper_files
from shelf import Shelf
from targets import Source

import notebooks

ROOT = Path(__file__).resolve().parent.parent
DAY = "2026-01-02"


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """The little book, its notebooks made without executing anything."""
    root = little_book.write(tmp_path)
    pretend_to_run(root)
    return root


def pretend_to_run(root: Path) -> None:
    """Writes fresh notebooks in which every cell printed its own number."""
    shelf = shelf_of(root)
    for page, chapter in shelf.chapters.items():
        count = len(chapter.code) + 1
        outputs = [
            [nbformat.v4.new_output("stream", text=f"cell {number}\n")]
            for number in range(count)
        ]
        run = stored.Run(
            executed=DAY,
            seconds=1.5,
            versions={"jax": "0.10.2"},
            digest=digests(shelf.source, chapter),
            outputs=outputs,
            counts=list(range(1, count + 1)),
        )
        stored.write(stored.path(root, page), shelf.text(page, run))


def shelf_of(root: Path) -> Shelf:
    book = addresses.load(root / "_config.yml")
    return Shelf(Source(root), book)


def run(root: Path, *command: str) -> int:
    return notebooks.main(["--root", str(root), *command])


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def notebook(root: Path, page: str = "part/first") -> nbformat.NotebookNode:
    return nbformat.read(stored.path(root, page), as_version=4)


def test_fresh_notebooks_pass(book, capsys):
    assert run(book, "check") == 0
    assert capsys.readouterr().out == "Notebooks: all 2 are fresh.\n"


FAULTS = {
    "code": ("book/part/first.md", "one + 1", "one + 2", "its code cells changed"),
    "tag": (
        "book/part/first.md",
        "python\none + 1",
        "python\n:tags: [hide-input]\none + 1",
        "its code cells changed",
    ),
    "helper": ("helpers/units.py", "FACTOR * x", "x * FACTOR", "a helper"),
    "deep helper": ("helpers/deep.py", "2", "3", "a helper"),
    "package": ("helpers/__init__.py", "", "x = 1\n", "a helper"),
    "table of a helper": ("helpers/deep.toml", "1", "2", "a helper"),
    "script of a helper": ("helpers/deep.js", "1", "2", "a helper"),
    "style of a helper": ("helpers/deep.css", "1", "2", "a helper"),
    "pin": ("requirements.txt", "jax==0.10.2", "jax==0.12.0", "a pin"),
    "prose": ("book/part/first.md", "Now again", "Once more", "its prose"),
    "address": ("_config.yml", "owner/little", "other/little", "its prose"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_check_names_what_changed(book, capsys, fault):
    name, old, new, reason = FAULTS[fault]
    edit(book / name, old, new)
    assert run(book, "check") == 1
    out = capsys.readouterr().out
    assert f"notebooks/part/first.ipynb: {reason}" in out


@pytest.mark.parametrize(
    "name,old,new",
    [
        ("helpers/unused.py", "", "x = 1\n"),
        ("helpers/unused.toml", "1", "2"),
        ("requirements.txt", "sphinx==7.4.7", "sphinx==8.0.0"),
    ],
)
def test_check_ignores_what_no_cell_can_see(book, name, old, new):
    edit(book / name, old, new)
    assert run(book, "check") == 0


def test_check_names_missing_and_orphaned_notebooks(book, capsys):
    stored.path(book, "part/first").rename(stored.path(book, "part/old"))
    assert run(book, "check") == 1
    out = capsys.readouterr().out
    assert "notebooks/part/first.ipynb: it has no notebook" in out
    assert "notebooks/part/old.ipynb: no chapter of _toc.yml belongs to it" in out


def test_check_needs_neither_jax_nor_torch(book):
    block = "import sys; sys.modules.update(jax=None, torch=None, numpy=None); "
    code = f"sys.path.append({str(ROOT / 'tools')!r}); import notebooks; "
    call = f"sys.exit(notebooks.main(['--root', {str(book)!r}, 'check']))"
    subprocess.run([sys.executable, "-c", block + code + call], check=True)


def test_helpers_are_followed_through_every_kind_of_import(tmp_path):
    cells = "import helpers.inner.leaf\nfrom helpers.inner import other as renamed\n"
    text = f"{little_book.HEADER}\n# T\n\n```{{code-cell}} python\n{cells}```\n"
    root = little_book.write(tmp_path, first=text)
    for name, source in {
        "inner/__init__": "",
        "inner/leaf": "from ..deep import FACTOR",
        "inner/other": "from . import more\nfrom helpers import unused",
        "inner/more": "",
    }.items():
        (root / "helpers/inner").mkdir(exist_ok=True)
        (root / f"helpers/{name}.py").write_text(source)
    source = Source(root)
    found = helper_files(source, chapters.read(source, "part/first"))
    names = ["__init__", "deep", "env", "inner/__init__", "inner/leaf", "inner/more"]
    names += ["inner/other", "unused"]
    expected = {f"{name}.py" for name in names} | {"deep.toml", "unused.toml"}
    expected |= {"deep.js", "deep.css"}
    places = [path.relative_to(root / "helpers").as_posix() for path in found]
    assert set(places) == expected
    assert places == sorted(places)


def test_helpers_of_a_cell_that_is_not_python_are_refused(tmp_path, capsys):
    text = little_book.FIRST.replace("one + 1", "%time one")
    assert run(little_book.write(tmp_path, first=text), "build") == 1
    assert "expected plain Python in the cell '%time one'" in capsys.readouterr().err


def test_prose_is_exported_again_without_executing(book, capsys):
    edit(book / "book/part/first.md", "Now again", "Once more")
    assert run(book, "build") == 0
    out = capsys.readouterr().out
    assert "part/first: exported again" in out and "0 executed, 2 had" in out
    made = notebook(book)
    assert "Once more." in [cell.source for cell in made.cells]
    assert made.cells[-1].outputs[0].text == "cell 2\n"
    assert made.metadata.book.executed == DAY
    assert run(book, "check") == 0


def test_export_repeats_byte_for_byte(book):
    path = stored.path(book, "part/first")
    before = path.read_bytes()
    pretend_to_run(book)
    assert path.read_bytes() == before


def test_notebook_is_what_colab_and_nbval_want(book):
    made = notebook(book)
    nbformat.validate(made)
    assert (made.nbformat, made.nbformat_minor) == (4, 5)
    assert made.metadata.accelerator == "TPU"
    assert made.metadata.colab.name == "first.ipynb"
    assert made.metadata.language_info == {"name": "python"}
    title, setup, *rest = made.cells
    assert title.source.startswith("# What is one and one?\n\n[Read this chapter on")
    assert setup.source.startswith("# @title Set-up")
    assert setup.metadata.cellView == "form"
    assert "nbval-ignore-output" in setup.metadata.tags
    assert [cell.cell_type for cell in rest] == ["markdown", "code"] * 2
    ids = [cell.id for cell in made.cells]
    assert len(set(ids)) == len(ids)


def test_ids_of_other_cells_survive_an_insertion(book):
    before = [cell.id for cell in notebook(book).cells]
    edit(book / "book/part/first.md", "Now again", "Inserted.\n\n+++\n\nNow again")
    run(book, "build")
    after = [cell.id for cell in notebook(book).cells]
    assert len(after) == len(before) + 1 and set(before) < set(after)


def test_output_with_a_path_of_the_machine_is_refused(book, capsys):
    made = notebook(book)
    made.cells[-1].outputs[0].text = f"saved {Path.home()}/x\n"
    stored.path(book, "part/first").write_text(nbformat.writes(made))
    assert run(book, "check") == 1
    error = capsys.readouterr().err
    assert "an output of the cell 'one + 1' shows the machine's path" in error


@pytest.mark.parametrize(
    "text",
    [
        "/home/me/a.py",
        "/tmp/ipykernel_1/2.py",
        "C:\\Users\\me",
        "/usr/lib/python3.12/a",
    ],
)
def test_machine_path_is_found_in_any_output(text):
    stream = nbformat.v4.new_output("stream", text=f"at {text}:1")
    page = nbformat.v4.new_output("display_data", {"text/html": f"<b>{text}</b>"})
    assert stored.machine_path([stream]) and stored.machine_path([page])
    assert not stored.machine_path([nbformat.v4.new_output("stream", text="a/b /c")])


@pytest.mark.parametrize(
    "tags,line", [("[needs-torch]", "x = 1"), ("[]", "# needs: torch")]
)
def test_needs_tag_and_comment_must_agree(tmp_path, capsys, tags, line):
    cell = f"```{{code-cell}} python\n:tags: {tags}\n\n{line}\n```\n"
    text = f"{little_book.HEADER}\n# T\n\n{cell}"
    assert run(little_book.write(tmp_path, first=text), "check") == 1
    error = capsys.readouterr().err
    assert "book/part/first.md:14: the tags say that this cell needs" in error


def test_chapter_without_title_is_refused(tmp_path, capsys):
    text = f"{little_book.HEADER}\nNo title.\n\n```{{code-cell}} python\n1\n```\n"
    root = little_book.write(tmp_path, first=text)
    assert run(root, "build") == 1
    assert "expected a title" in capsys.readouterr().err


def test_fault_in_prose_is_named_with_its_line_in_the_file(tmp_path, capsys):
    text = little_book.FIRST.replace("Now again.", "Now\n{made-up}`again`.")
    root = little_book.write(tmp_path, first=text)
    line = text[: text.index("{made-up}")].count("\n") + 1
    assert run(root, "build") == 1
    assert f"book/part/first.md:{line}: the exporter" in capsys.readouterr().err


def test_unknown_chapter_is_refused(book, capsys):
    assert run(book, "build", "part/third") == 1
    assert "got ['part/third']" in capsys.readouterr().err


def test_orphan_is_removed_by_a_full_build(book):
    orphan = stored.path(book, "part/old")
    orphan.write_text(stored.path(book, "part/first").read_text())
    assert run(book, "build", "part/first") == 0 and orphan.exists()
    assert run(book, "build") == 0 and not orphan.exists()


def test_execution_asks_for_the_packages_that_cells_need(tmp_path, capsys):
    cell = (
        "```{code-cell} python\n:tags: [needs-nothing_here]\n\n# needs: nothing_here\n"
    )
    text = f"{little_book.HEADER}\n# T\n\n{cell}```\n"
    root = little_book.write(tmp_path, first=text)
    assert run(root, "build", "part/first") == 1
    error = capsys.readouterr().err
    assert "part/first: expected nothing_here to be installed" in error


def test_execution_asks_for_the_pinned_versions(tmp_path, capsys):
    root = little_book.write(tmp_path)
    edit(root / "requirements.txt", "numpy==2.3.5", "numpy==1.0.0")
    assert run(root, "build", "part/first") == 1
    assert "expected numpy 1.0.0, as pinned, got" in capsys.readouterr().err


def start(root: Path, *command: str) -> subprocess.Popen:
    """Runs the command line with the little book's own helpers in its kernels."""
    return subprocess.Popen(
        [sys.executable, ROOT / "tools/notebooks.py", "--root", root, *command],
        env=os.environ | {"PYTHONPATH": str(root)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_build_executes_keeps_what_works_and_names_what_fails(tmp_path):
    bad = little_book.FIRST.replace("one + 1", "one / 0  # cannot be\none")
    root = little_book.write(tmp_path, first=bad)
    build = start(root, "build")
    out, err = build.communicate(timeout=120)
    assert build.returncode == 1
    assert (
        "part/first: the cell 'one / 0  # cannot be' failed: ZeroDivisionError" in err
    )
    assert "part/second: executed in" in out
    made = notebook(root, "part/second")
    assert made.cells[-1].outputs[0].data == {"text/plain": "4"}
    assert "execution" not in made.cells[-1].metadata
    assert made.metadata.book.versions.python == sys.version.split()[0]
    assert not stored.path(root, "part/first").exists()


def test_killed_build_keeps_finished_chapters(tmp_path):
    endless = little_book.FIRST.replace("one + 1", "import time; time.sleep(600)")
    root = little_book.write(tmp_path, first=endless)
    build = start(root, "build")
    done = stored.path(root, "part/second")
    deadline = time.monotonic() + 60
    while not done.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    build.send_signal(signal.SIGKILL)
    build.communicate()
    nbformat.validate(notebook(root, "part/second"))
    assert [path.name for path in done.parent.iterdir()] == ["second.ipynb"]


def test_interrupted_build_says_so_and_leaves_no_kernel(tmp_path):
    mark = "import os, pathlib, time; pathlib.Path({!r}).write_text(str(os.getpid()))"
    pid = tmp_path / "pid"
    endless = little_book.FIRST.replace(
        "one + 1", f"{mark.format(str(pid))}; time.sleep(600)"
    )
    root = little_book.write(tmp_path, first=endless)
    build = start(root, "build", "part/first")
    deadline = time.monotonic() + 60
    while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    build.send_signal(signal.SIGINT)
    _, err = build.communicate(timeout=30)
    assert build.returncode == 130
    assert err.endswith("Interrupted; finished chapters are kept.\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_seeded_site_executes_nothing_and_shows_stored_outputs(book, capsys):
    assert run(book, "seed") == 0
    assert capsys.readouterr().out == "Cache: 2 chapters ready, 2 of them new.\n"
    assert run(book, "seed") == 0
    assert "0 of them new" in capsys.readouterr().out
    log = little_book.build_site(book)
    assert log.count("Using cached notebook") == 2
    assert "Executing notebook" not in log
    page = (book / "_build/html/part/first.html").read_text(encoding="utf-8")
    assert "cell 2" in page
    assert "cell 0" not in page, "the set-up cell is not part of the site"


def test_stale_chapter_is_not_seeded_and_its_old_outputs_are_forgotten(book, capsys):
    run(book, "seed")
    edit(book / "helpers/units.py", "FACTOR * x", "x * FACTOR")
    capsys.readouterr()
    assert run(book, "seed") == 0
    out = capsys.readouterr().out
    assert "Cache: 1 chapters ready, 0 of them new." in out
    assert "part/first: the site has to execute it" in out
    kept = list((book / "_build/.jupyter_cache/executed").iterdir())
    assert len(kept) == 1


def test_export_writes_for_the_addresses_in_force(book, tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_REPOSITORY", "https://github.com/me/mine")
    monkeypatch.setenv("BOOK_REF", "abc123")
    assert run(book, "export", "--to", str(tmp_path / "out")) == 0
    text = (tmp_path / "out/part/first.ipynb").read_text()
    assert "https://github.com/me/mine/archive/abc123.zip" in text
    assert "colab.research.google.com/github/me/mine/blob/main" in text
    assert "owner/little" not in text and "cell 2" in text


def test_export_refuses_stale_notebooks(book, tmp_path, capsys):
    edit(book / "book/part/first.md", "one + 1", "one + 2")
    assert run(book, "export", "--to", str(tmp_path / "out")) == 1
    assert "got stale ones: part/first" in capsys.readouterr().err


def test_status_tells_of_each_chapters_last_run(book, capsys):
    edit(book / "helpers/units.py", "FACTOR * x", "x * FACTOR")
    assert run(book, "status") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["part/first"] == {
        "title": "What is one and one?",
        "fresh": False,
        "stale": ["helpers"],
        "executed": DAY,
        "seconds": 1.5,
        "versions": {"jax": "0.10.2"},
    }
    assert told["part/second"]["fresh"]
