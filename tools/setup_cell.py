"""The first code cell of an exported notebook: the book's helpers, where missing."""

from __future__ import annotations

from collections.abc import Iterable

from addresses import Addresses
from pins import COMPANIONS, exact

OTHERS = (
    *("absl-py", "flatbuffers", "matplotlib", "ml-dtypes", "numpy", "opt-einsum"),
    *("optax", "scipy"),
)
METADATA = {
    "cellView": "form",
    "jupyter": {"source_hidden": True},
    "tags": ["nbval-ignore-output", "set-up"],
}
TEMPLATE = '''\
# @title Set-up: run this cell first
import os
import subprocess
import sys
from contextlib import suppress
from importlib import invalidate_caches
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec


def install_book():
    """Installs this book's JAX and helpers; all that is installed already stays."""
    helpers = os.environ.get("BOOK_HELPERS") or (
        "@helpers@"
    )
    loaded = getattr(sys.modules.get("jax"), "__version__", "@jax@")
    if loaded != "@jax@":
        raise RuntimeError(
            f"JAX {loaded} is already imported and this book needs @jax@: "
            "restart the session and run this cell first."
        )
    pins = [
@pins@
    ]
    others = {
@others@
    }
    for package, wanted in others.items():
        with suppress(PackageNotFoundError):
            wanted = version(package)
        pins.append(f"{package}=={wanted}")
    install("JAX @jax@", *pins)
    install("this book's helpers", "--no-deps", helpers)
    invalidate_caches()


def install(what, *requirements):
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *requirements], capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise RuntimeError(
            f"Cannot install {what}, which needs an internet connection (a switch "
            f"in Kaggle's settings) and a published book; pip says: {reason}"
        )


if find_spec("helpers") is None:
    install_book()

from helpers import env

env.prepare()
print(env.describe())
'''


def render(addresses: Addresses, pinned: dict[str, str]) -> str:
    """Writes the cell for one address and one set of pins.

    Args:
        addresses: Where the helpers are published.
        pinned: Every pin of the book, by package.

    Returns:
        Python source.
    """
    jax = exact(pinned["jax"])
    others = {name: exact(pinned[name]) for name in OTHERS if name in pinned}
    values = {
        "helpers": f"{addresses.repository}/archive/{addresses.ref}.zip",
        "jax": jax,
        "others": _rows(f"{name!r}: {version!r}" for name, version in others.items()),
        "pins": _rows(repr(pinned[package]) for package in ("jax", *COMPANIONS)),
    }
    text = TEMPLATE
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text.rstrip("\n")


def _rows(items: Iterable[str]) -> str:
    return "\n".join(f"        {item}," for item in items)
