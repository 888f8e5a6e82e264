"""The Colab lane, the canary, the link check and the summary of all tests."""

from __future__ import annotations

import re
import sys
import threading
import zipfile
from collections import Counter
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import canary
import colab
import environment
import lanes
import links
import nbformat
import pytest
import run_tests
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
COLAB = {"numpy": "2.1.3", "ipython": "7.34.0", "jax": "0.7.2"}


def use_this_python(folder: Path) -> Path:
    """Makes a folder that passes for an environment with this Python's packages."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return folder


def notebook(path: Path, *sources: str) -> Path:
    """Writes a notebook of code cells."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def with_output(text: str) -> nbformat.NotebookNode:
    """A notebook whose only cell printed a text."""
    output = nbformat.v4.new_output("stream", text=text)
    cell = nbformat.v4.new_code_cell("", outputs=[output])
    return nbformat.v4.new_notebook(cells=[cell])


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("colab, 1 TPU device", {"jax": "0.10.2"}, []),
        ("Start over the computation.", {}, []),
        ("", {"numpy": "2.3.5"}, ["numpy changed from 2.1.3 to 2.3.5"]),
        ("", {"ipython": "9.0"}, ["ipython changed from 7.34.0 to 9.0"]),
        (
            "You must restart the runtime.\n",
            {},
            ["an output asks for a restart: 'You must restart the runtime.'"],
        ),
        (
            "Restart your session",
            {},
            ["an output asks for a restart: 'Restart your session'"],
        ),
    ],
)
def test_faults_are_what_would_stop_a_reader(text, after, expected):
    assert colab.faults(with_output(text), COLAB, {**COLAB, **after}) == expected


def test_faults_name_a_package_that_is_gone():
    after = {"ipython": "7.34.0"}
    assert colab.faults(with_output(""), COLAB, after) == [
        "numpy changed from 2.1.3 to nothing"
    ]


def test_a_notebook_runs_alone_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    source = "import os\nprint(os.listdir(), os.environ['BOOK_HELPERS'])"
    hidden = "print(os.environ.get('PYTHONPATH'))"
    path = notebook(tmp_path / "one.ipynb", source, hidden)
    python = use_this_python(tmp_path / "environment")
    node = colab.run_alone(path, python, Path("helpers.whl"))
    assert colab.printed(node) == ["[] helpers.whl\n", "None\n"]


def test_a_failing_cell_is_named_by_its_error(tmp_path):
    path = notebook(tmp_path / "one.ipynb", "1 / 0")
    python = use_this_python(tmp_path / "environment")
    with pytest.raises(CellExecutionError) as caught:
        colab.run_alone(path, python, Path("helpers.whl"))
    assert colab.why_it_failed(caught.value) == "ZeroDivisionError: division by zero"


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """An environment of one file."""
    folder = tmp_path / ".venv-lane"
    folder.mkdir()
    (folder / "module.py").write_text("original")
    environment.write_state(folder, "packages")
    return folder


def test_a_copy_may_replace_files_and_is_deleted(template):
    with colab.pristine_copy(template) as copy:
        assert (copy / "module.py").read_text() == "original"
        (copy / "module.py").unlink()
        (copy / "module.py").write_text("replaced")
    assert not copy.exists()
    assert (template / "module.py").read_text() == "original"
    assert environment.read_state(template)["packages"] == "packages"


def test_a_change_that_reaches_the_original_is_found(template):
    with pytest.raises(environment.SetupError, match="changed .*module.py, outside"):
        with colab.pristine_copy(template) as copy:
            (copy / "module.py").write_text("changed in place")
    assert environment.read_state(template)["packages"] == ""


def test_colab_is_skipped_where_its_python_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(colab, "find_python", lambda version: None)
    assert colab.colab(tmp_path) == 0
    assert capsys.readouterr().out.startswith("SKIPPED: the Colab lane needs Python 3")


def test_colab_goes_on_after_a_failure_and_counts(tmp_path, monkeypatch, capsys):
    for name in ("bad", "good"):
        notebook(tmp_path / f"notebooks/part/{name}.ipynb", "1")
    found = {"bad": ["an explanation"], "good": []}
    monkeypatch.setattr(colab, "find_python", lambda version: Path("/bin/true"))
    monkeypatch.setattr(colab, "build_wheel", lambda root, folder: folder / "a.whl")
    monkeypatch.setattr(colab, "try_on_colab", lambda path, *_: found[path.stem])
    assert colab.colab(tmp_path) == 1
    printed = capsys.readouterr().out
    assert "FAILED" in printed and "an explanation" in printed
    assert printed.endswith("Colab lane: 1 passed, 1 failed.\n")


def test_no_notebook_is_an_error_not_a_pass(tmp_path):
    (tmp_path / "notebooks" / ".ipynb_checkpoints").mkdir(parents=True)
    (tmp_path / "notebooks/.ipynb_checkpoints/old.ipynb").touch()
    with pytest.raises(environment.SetupError, match="make notebooks"):
        lanes.committed_notebooks(tmp_path)


def test_the_wheel_holds_every_module_and_table_and_no_leftover(tmp_path):
    use_this_python(tmp_path / "root" / ".venv")
    modules = [p for p in (ROOT / "helpers").rglob("*.py")]
    for suffix in ("toml", "js", "css"):
        modules += (ROOT / "helpers").glob(f"*.{suffix}")
    for source in [*modules, ROOT / "pyproject.toml"]:
        target = tmp_path / "root" / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    leftover = tmp_path / "root/build/lib/helpers/gone.py"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    wheel = lanes.build_wheel(tmp_path / "root", tmp_path)
    names = zipfile.ZipFile(wheel).namelist()
    packed = {name for name in names if name.endswith((".py", ".toml", ".js", ".css"))}
    assert {"helpers/chips.toml", "helpers/widgets.js"} <= packed
    assert packed == {p.relative_to(ROOT).as_posix() for p in modules}


def test_the_colab_runtime_is_pinned_as_colab_publishes_it():
    lines = environment.pins(ROOT / "tools/colab-runtime.txt")
    assert not [line for line in lines if not re.match(r"[\w.-]+==[\w.]+(;|$)", line)]
    for name, version in COLAB.items():
        assert f"{name}=={version}" in lines


def test_the_canary_frees_jax_and_holds_the_rest():
    held = canary.constraints(ROOT / "requirements.txt")
    names = {line.split("==")[0] for line in held}
    assert not names & set(canary.JAX)
    assert set(canary.RUNNERS) <= names


@pytest.mark.parametrize(
    ("system", "machine", "expected"),
    [
        ("Linux", "x86_64", "jax[tpu]"),
        ("Linux", "aarch64", "jax"),
        ("Darwin", "arm64", "jax"),
    ],
)
def test_the_canary_asks_for_libtpu_only_where_it_exists(
    monkeypatch, system, machine, expected
):
    monkeypatch.setattr(canary.platform, "system", lambda: system)
    monkeypatch.setattr(canary.platform, "machine", lambda: machine)
    assert canary.newest_jax() == expected


class Answers(BaseHTTPRequestHandler):
    """Answers with the status that the path names."""

    def do_GET(self) -> None:  # noqa: N802 (the base class's name)
        self.send_response(int(self.path.strip("/")))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stays silent."""


@pytest.fixture
def host():
    """The address of a server of `Answers`."""
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_links_are_told_apart_by_what_they_answer(host):
    with links.session() as client:
        assert links.fault(client, f"{host}/200") is None
        assert links.fault(client, f"{host}/403") is None
        assert links.fault(client, f"{host}/404") == "answers 404"


def test_links_leave_out_the_books_own_addresses(tmp_path):
    (tmp_path / "page.html").write_text(
        '<a href="https://a.example/x#part">a</a> <a href="other.html">b</a>'
        '<a href="https://book.example/p">c</a> <a href="#top">d</a>'
        '<a href="https://colab.example/github/me/book/n.ipynb">e</a>'
    )
    own = ("https://book.example/", "me/book")
    assert links.external_links(tmp_path, own) == {"https://a.example/x": ["page.html"]}


def stage(code: str) -> run_tests.Stage:
    """A stage that runs a line of Python."""
    return run_tests.Stage(code, ("-c", code))


def test_stages_go_on_after_a_failure(tmp_path, monkeypatch, capfd):
    stages = (stage("raise SystemExit(3)"), stage("print('second')"))
    monkeypatch.setattr(run_tests, "STAGES", stages)
    assert run_tests.main(tmp_path) == 1
    printed = capfd.readouterr().out
    assert "second" in printed
    assert printed.endswith("1 of 2 stages passed; 0 passed, 0 failed, 0 skipped.\n")


def test_stages_count_each_outcome(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): pass\n"
        "def test_c(): assert False\n"
        "def test_d(): pytest.skip()\n"
    )
    quiet = ("-p", "no:cacheprovider", "-n0", "test_it.py")
    result = run_tests.run(run_tests.pytest_stage("Counted", *quiet), tmp_path)
    assert not result.passed
    assert result.counts == Counter(passed=2, failed=1, skipped=1)
    assert "FAILED Counted" in run_tests.line(result)


def test_every_test_file_and_notebook_belongs_to_a_stage():
    arguments = {word for each in run_tests.STAGES for word in each.arguments}
    assert {"tests", "notebooks", run_tests.BROWSER} <= arguments
    assert (ROOT / run_tests.BROWSER).exists()
    assert (ROOT / "tests/nbval.cfg").exists()
