"""What the Colab lane and the canary share: notebooks, a wheel, an environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from environment import SetupError, pip, python_of

ROOT = Path(__file__).resolve().parent.parent


def find_python(*versions: str) -> Path | None:
    """Finds a Python; says on standard error why there is none."""
    command = ["sh", ROOT / "tools" / "find_python.sh", *versions]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHON"}
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    return Path(found.stdout.strip()) if found.returncode == 0 else None


def committed_notebooks(root: Path) -> list[Path]:
    """The notebooks of the book, in the order of their paths.

    Raises:
        SetupError: If there are none.
    """
    found = sorted(
        path
        for path in (root / "notebooks").rglob("*.ipynb")
        if ".ipynb_checkpoints" not in path.parts
    )
    if not found:
        raise SetupError("There is no notebook to run; make them with: make notebooks")
    return found


def build_wheel(root: Path, folder: Path) -> Path:
    """Builds the helpers of this checkout into a wheel, without a network.

    The build works on a copy: setuptools keeps a ``build`` folder beside what it
    builds and would pack modules from it that are gone from the checkout.

    Args:
        root: The checkout.
        folder: Where to put the wheel.

    Returns:
        The wheel.

    Raises:
        SetupError: If the build fails.
    """
    source = folder / "source"
    hidden = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "helpers", source / "helpers", ignore=hidden)
    shutil.copy(root / "pyproject.toml", source)
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    arguments = ["wheel", *offline, "--wheel-dir", str(folder), str(source)]
    pip(root / ".venv", *arguments, doing="Building the helpers' wheel")
    return next(folder.glob("*.whl"))


def versions(folder: Path) -> dict[str, str]:
    """The versions that an environment holds.

    Args:
        folder: The environment.

    Returns:
        Version by name in small letters, of every distribution and of ``python``.
    """
    code = (
        "import importlib.metadata as m, json, platform; "
        "found = {d.name.lower(): d.version for d in m.distributions()}; "
        "print(json.dumps({**found, 'python': platform.python_version()}))"
    )
    # -P keeps the current folder off the path, so only the environment answers.
    command = [python_of(folder), "-P", "-c", code]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(listed.stdout)
