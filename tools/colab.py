"""Runs each committed notebook alone, as a reader would on a Colab runtime.

``python tools/colab.py``: Python 3.13 with what Colab has installed, an empty folder,
and a set-up cell that really has to fetch the book's JAX and helpers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from environment import SetupError, python_of, write_state
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from lanes import ROOT, build_wheel, committed_notebooks, find_python, versions
from nbclient import NotebookClient
from nbclient.exceptions import (
    CellExecutionError,
    CellTimeoutError,
    DeadKernelError,
)

PYTHON = "3.13"
CELL_TIMEOUT_S = 600
HELPERS = "pure-functions-to-pods"
# Replacing one of these under a running kernel is what forces a reader to restart.
UNTOUCHED = ("numpy", "ipython")
_RESTART = re.compile(r"restart\w* (the |your )?(runtime|kernel|session)", re.I)


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Time of change in nanoseconds and size in bytes of every file in a folder."""
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            status = os.lstat(os.path.join(parent, name))
            found[os.path.join(parent, name)] = (status.st_mtime_ns, status.st_size)
    return found


@contextmanager
def pristine_copy(folder: Path) -> Iterator[Path]:
    """Copies an environment for one use.

    The copy is made of hard links, which spares writing a gigabyte for each notebook.
    Installers replace files and leave the original alone; one that wrote into a file
    in place would reach it, so that is looked for at the end.

    Args:
        folder: The environment to copy.

    Yields:
        The copy, deleted at the end. Its ``python`` works; its scripts do not, since
        they name the original's interpreter.

    Raises:
        SetupError: If a change reached the original, which is then made anew next time.
    """
    before = snapshot(folder)
    with tempfile.TemporaryDirectory(
        prefix=f"{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True
    ) as scratch:
        copy = Path(scratch, "environment")
        shutil.copytree(folder, copy, symlinks=True, copy_function=os.link)
        yield copy
    after = snapshot(folder)
    if after != before:
        changed = min(
            name for name in before | after if before.get(name) != after.get(name)
        )
        write_state(folder, "")
        raise SetupError(f"A notebook changed {changed}, outside its own environment.")


def run_alone(notebook: Path, environment: Path, wheel: Path) -> nbformat.NotebookNode:
    """Runs a notebook from top to bottom in an empty folder.

    Args:
        notebook: The notebook, of which a copy is run.
        environment: The environment whose Python runs the cells.
        wheel: What the set-up cell installs as the book's helpers.

    Returns:
        The notebook with its new outputs.

    Raises:
        CellExecutionError: If a cell fails.
        CellTimeoutError: If a cell takes longer than ten minutes.
        DeadKernelError: If the kernel dies.
    """
    node = nbformat.read(notebook, as_version=4)
    with tempfile.TemporaryDirectory() as empty:
        client = NotebookClient(
            node,
            kernel_manager_class=kernels_of(environment),
            timeout=CELL_TIMEOUT_S,
            resources={"metadata": {"path": empty}},
        )
        client.execute(env=_colab_variables(environment, wheel))
    return node


def kernels_of(environment: Path) -> type[AsyncKernelManager]:
    """What starts kernels of an environment, whatever kernels are registered."""
    launch = [str(python_of(environment)), "-m", "ipykernel_launcher"]
    spec = KernelSpec(argv=[*launch, "-f", "{connection_file}"], display_name="Colab")

    class Manager(AsyncKernelManager):
        kernel_spec = spec

    return Manager


def _colab_variables(environment: Path, wheel: Path) -> dict[str, str]:
    hidden = ("PYTHONPATH", "PYTHONHOME", "CI")
    return {
        **{name: value for name, value in os.environ.items() if name not in hidden},
        "BOOK_HELPERS": str(wheel),
        "COLAB_RELEASE_TAG": "lane",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "VIRTUAL_ENV": str(environment),
    }


def printed(node: nbformat.NotebookNode) -> list[str]:
    """What the cells printed, one text for each output stream."""
    return [
        output["text"]
        for cell in node.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "stream"
    ]


def faults(
    node: nbformat.NotebookNode, before: dict[str, str], after: dict[str, str]
) -> list[str]:
    """What would trouble a reader on Colab, though every cell passed.

    Args:
        node: The executed notebook.
        before: The versions in the environment before the run.
        after: The same, after it.

    Returns:
        One sentence for each fault.
    """
    changed = [
        f"{name} changed from {before[name]} to {after.get(name, 'nothing')}"
        for name in UNTOUCHED
        if after.get(name) != before[name]
    ]
    asked = [
        f"an output asks for a restart: {text.strip()!r}"
        for text in printed(node)
        if _RESTART.search(text)
    ]
    return changed + asked


def why_it_failed(error: Exception) -> str:
    """One line that says why a notebook did not run to its end."""
    if isinstance(error, CellExecutionError):
        return f"{error.ename}: {error.evalue}".splitlines()[0]
    return str(error).splitlines()[0]


def try_on_colab(notebook: Path, template: Path, wheel: Path) -> list[str]:
    """Runs one notebook as on Colab.

    Args:
        notebook: The notebook.
        template: The environment to copy.
        wheel: The book's helpers.

    Returns:
        The faults found; none if a reader would have no trouble.
    """
    with pristine_copy(template) as environment:
        before = versions(environment)
        if HELPERS in before:
            return ["the helpers are there before the set-up cell has run"]
        try:
            node = run_alone(notebook, environment, wheel)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            return [why_it_failed(error)]
        return faults(node, before, versions(environment))


def colab(root: Path) -> int:
    """Runs every notebook as on a Colab runtime.

    Args:
        root: The checkout.

    Returns:
        The number of notebooks that failed.
    """
    python = find_python(PYTHON)
    if python is None:
        print(f"SKIPPED: the Colab lane needs Python {PYTHON}, as Colab has.")
        return 0
    notebooks = committed_notebooks(root)
    template = root / ".venv-colab"
    runtime = root / "tools" / "colab-runtime.txt"
    make = [python, root / "tools" / "environment.py", template, runtime]
    if subprocess.run(make).returncode:
        return 1
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        wheel = build_wheel(root, Path(scratch))
        for number, notebook in enumerate(notebooks, 1):
            name = notebook.relative_to(root).as_posix()
            print(f"[{number}/{len(notebooks)}] {name} …", flush=True)
            start = time.monotonic()
            found = try_on_colab(notebook, template, wheel)
            seconds = time.monotonic() - start
            print(f"  {'FAILED' if found else 'passed'} in {seconds:.0f} s")
            for fault in found:
                print(f"  {fault}")
            failed += bool(found)
    print(f"Colab lane: {len(notebooks) - failed} passed, {failed} failed.")
    return failed


if __name__ == "__main__":
    try:
        sys.exit(min(colab(ROOT), 1))
    except SetupError as error:
        sys.exit(str(error))
