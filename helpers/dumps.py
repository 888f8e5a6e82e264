"""Lets the TPU compiler write down its last stage: the bundles that the chip issues.

The compiler writes dumps when it is told so by ``LIBTPU_INIT_ARGS``, which it reads
once in the life of a process. So a child process compiles, from an exported program and
with a time limit; of its hundreds of files two for each piece of the program are kept.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.export

from helpers.bundles import parse_bundles
from helpers.lowering import Lowering, lower_for
from helpers.store import kept
from helpers.vliw import Schedule

__all__ = ["DumpFailed", "schedules_for"]

_CHILD = """
import sys
from helpers import env
env.prepare()
import jax, jax.export
from jax.sharding import SingleDeviceSharding
from helpers.topology import devices_of
file, chip, *donated = sys.argv[1:]
with open(file, "rb") as exported:
    program = jax.export.deserialize(bytearray(exported.read()))
place = SingleDeviceSharding(devices_of(chip)[0])
arguments = [
    jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place, weak_type=a.weak_type)
    for a in program.in_avals
]
def call(*leaves):
    args, kwargs = jax.tree.unflatten(program.in_tree, leaves)
    return program.call(*args, **kwargs)
jitted = jax.jit(call, donate_argnums=tuple(map(int, donated)))
jitted.lower(*arguments).compile()
"""
_FILE = re.compile(
    r"\d+-(?P<piece>.+)-\d+-(?P<kind>final_bundles|"
    r"final_hlo-static-per-bundle-utilization)\.txt"
)


class DumpFailed(RuntimeError):
    """The process that was to write the dumps did not."""


def schedules_for(
    function: Callable, *arguments: Any, chip: str = "v5e", limit_s: float = 120.0
) -> dict[str, Schedule]:
    """Compiles a function for one device and reads the bundles of each piece.

    The pieces are the fusions and other instructions of the HLO module, by name, and
    ``TLP``, the top-level program that calls them. The result is kept on disk.

    Args:
        function: As for ``compile_for``.
        *arguments: As for ``compile_for``, without shardings.
        chip: A key of ``CHIPS``.
        limit_s: How long the compiling process may take, in seconds.

    Returns:
        The schedules by the name of the piece, in the order compiled.

    Raises:
        ValueError: As ``compile_for`` does.
        Untraceable: As ``compile_for`` does.
        DumpFailed: If the process failed or took too long.
        CompilerMissing: If this machine has no TPU compiler.
    """
    lowering = lower_for(function, arguments, chip)

    def make() -> dict[str, list[str]]:
        with tempfile.TemporaryDirectory() as folder:
            _write_dumps(lowering, chip, Path(folder), limit_s)
            return _collected(Path(folder))

    return kept(lowering.name("bundles 1"), make, _parsed)


def _write_dumps(lowering: Lowering, chip: str, folder: Path, limit_s: float) -> None:
    """Has a child process compile the program and fill the folder with dumps."""
    plain = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type),
        lowering.arguments,
    )
    exported = jax.export.export(lowering.jitted, platforms=["tpu"])(*plain)
    file = folder / "program"
    file.write_bytes(exported.serialize())
    leaves = jax.tree.leaves(lowering.lowered.args_info)
    donated = [str(place) for place, leaf in enumerate(leaves) if leaf.donated]
    flags = f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true"
    given = os.environ.get("LIBTPU_INIT_ARGS", "")
    try:
        child = subprocess.run(
            [sys.executable, "-c", _CHILD, file, chip, *donated],
            env=os.environ | {"LIBTPU_INIT_ARGS": f"{given} {flags}".strip()},
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        raise DumpFailed(
            f"expected the dumps within {limit_s:g} s; a smaller program, or a higher "
            "limit_s, may help"
        ) from None
    if child.returncode:
        reason = (child.stderr.strip().splitlines() or ["no message"])[-1]
        raise DumpFailed(f"the process that compiles for dumps failed: {reason}")


def _collected(folder: Path) -> dict[str, list[str]]:
    """The texts of bundles and utilisation of each piece, in the order compiled."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.iterdir()):
        if parsed := _FILE.fullmatch(path.name):
            kinds = found.setdefault(parsed["piece"], {})
            kinds[parsed["kind"]] = path.read_text(encoding="utf-8")
    kinds = ("final_bundles", "final_hlo-static-per-bundle-utilization")
    return {
        piece: [texts[kind] for kind in kinds if kind in texts]
        for piece, texts in found.items()
        if kinds[0] in texts
    }


def _parsed(stored: dict[str, list[str]]) -> dict[str, Schedule]:
    return {piece: parse_bundles(*texts) for piece, texts in stored.items()}
