"""Runs every notebook with the newest JAX on the newest Python: a warning in time.

``python tools/canary.py``: outputs are not compared; the question is whether every
cell still runs.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from environment import SetupError, pins, pip, python_of
from lanes import ROOT, build_wheel, committed_notebooks, find_python, versions

# JAX's release decides these; whatever else runs the notebooks keeps its pin.
JAX = ("jax", "jaxlib", "libtpu", "ml_dtypes", "numpy", "opt_einsum", "scipy")
RUNNERS = (
    *("flatbuffers", "ipykernel", "matplotlib", "nbval", "optax", "pytest"),
    "pytest-xdist",
)


def newest_jax() -> str:
    """What pip is asked for: libtpu, which the extra brings, is for Linux on x86-64."""
    has_libtpu = platform.system() == "Linux" and platform.machine() == "x86_64"
    return "jax[tpu]" if has_libtpu else "jax"


def constraints(requirements: Path) -> list[str]:
    """The pins that the newest JAX has no say in.

    Args:
        requirements: The book's pins.

    Returns:
        Lines for pip's ``--constraint``.
    """
    return [line for line in pins(requirements) if re.split("[=;]", line)[0] not in JAX]


def make_environment(root: Path, folder: Path) -> None:
    """Makes the canary's environment anew, with the helpers of this checkout.

    Args:
        root: The checkout.
        folder: Where to make it.

    Raises:
        SetupError: If there is no Python, or pip fails.
    """
    python = find_python()
    if python is None:
        raise SetupError("The canary needs a Python to run on.")
    print(f"Making {folder.name} with the newest JAX …", flush=True)
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "constraints.txt")
        file.write_text("\n".join(constraints(root / "requirements.txt")))
        newest = ["--upgrade", "--constraint", str(file), newest_jax(), *RUNNERS]
        pip(folder, "install", *newest, doing="Installing the newest JAX")
        wheel = build_wheel(root, Path(scratch))
        pip(folder, "install", "--no-deps", str(wheel), doing="Installing the helpers")


def canary(root: Path) -> int:
    """Runs every notebook in the canary's environment.

    Args:
        root: The checkout.

    Returns:
        pytest's exit status.

    Raises:
        SetupError: If there is nothing to run, or nothing to run it with.
    """
    committed_notebooks(root)
    folder = root / ".venv-canary"
    make_environment(root, folder)
    found = versions(folder)
    shown = [f"{name} {found[name]}" for name in ("python", *JAX) if name in found]
    print("Canary:", ", ".join(shown), flush=True)
    command = [python_of(folder), "-m", "pytest", "-p", "tests.nbval_plugin"]
    options = [
        "--nbval-lax",
        "--nbval-current-env",
        "-n",
        "logical",
        "--dist",
        "loadscope",
    ]
    return subprocess.run([*command, *options, "notebooks"], cwd=root).returncode


if __name__ == "__main__":
    try:
        sys.exit(canary(ROOT))
    except SetupError as error:
        sys.exit(str(error))
