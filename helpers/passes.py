"""Which of the compiler's passes changed a program, in their order, and how.

XLA writes the module down after each pass that reports a change, if it is asked to when
a program is compiled. The files go to a temporary folder and are read at once. A pass
that reports a change and leaves every instruction as it was is passed over; a change
that no pass has signed, since it happened between two pipelines, has no name.

Source: openxla.org/xla/hlo_dumps for the options, and the names of the files that
jaxlib 0.10.2 and 0.12.0 and libtpu 0.0.42 and 0.0.52 write, 2026-12-01.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
from jax.sharding import SingleDeviceSharding

from helpers.hlo import parse
from helpers.hlo_module import Instruction, Module
from helpers.lowering import lower_for, shape_of
from helpers.store import kept
from helpers.topology import CHIPS

__all__ = ["Pass", "PassesMissing", "passes_for"]

_FILE = re.compile(
    r"(?P<module>module_\d+)\..*\.(?P<number>\d{4,})\.(?P<pipeline>[^.]+)"
    r"(?:\.after_(?P<after>[^.]+))?(?:\.before_(?P<before>[^.]+))?\.txt"
)
_FIRST = re.compile(r"(?P<module>module_\d+)\..*before_optimizations\.txt")
_START = "pipeline-start"


class PassesMissing(RuntimeError):
    """The compiler wrote nothing down."""


@dataclass(frozen=True)
class Pass:
    """One change of a module.

    Attributes:
        name: The pass as the compiler calls it; empty where none has signed.
        pipeline: The group of passes it belongs to, or after which the change was seen.
        before: The module as the pass found it.
        after: The module as it left it.
    """

    name: str
    pipeline: str
    before: Module = field(repr=False)
    after: Module = field(repr=False)

    @property
    def removed(self) -> dict[str, int]:
        """How many instructions fewer there are, by opcode."""
        return dict(_opcodes(self.before) - _opcodes(self.after))

    @property
    def added(self) -> dict[str, int]:
        """How many instructions more there are, by opcode."""
        return dict(_opcodes(self.after) - _opcodes(self.before))

    @property
    def lines_removed(self) -> tuple[str, ...]:
        """Instructions that only the module before has, as printed, in its order."""
        return _only(self.before, self.after)

    @property
    def lines_added(self) -> tuple[str, ...]:
        """Instructions that only the module after has, as printed, in its order."""
        return _only(self.after, self.before)


def _instructions(module: Module) -> Iterator[Instruction]:
    for computation in module.computations.values():
        yield from computation.instructions


def _lines(module: Module) -> list[str]:
    return [found.text for found in _instructions(module)]


def _opcodes(module: Module) -> Counter[str]:
    return Counter(found.opcode for found in _instructions(module))


def _only(module: Module, other: Module) -> tuple[str, ...]:
    known = set(_lines(other))
    return tuple(line for line in _lines(module) if line not in known)


def passes_for(
    function: Callable, *arguments: Any, chip: str = "v5e"
) -> tuple[Pass, ...]:
    """Compiles a function and lists the passes that changed its program.

    For a TPU the result is kept on disk (see ``helpers.store``).

    Args:
        function: As for ``compile_for``.
        *arguments: As for ``compile_for``, without shardings.
        chip: A key of ``CHIPS``, or ``"cpu"`` for this machine.

    Returns:
        The changes in order: the first begins with the module as the compiler got it,
        the last ends with the one that runs.

    Raises:
        ValueError: If the chip is unknown or an argument is no array.
        Untraceable: If the function asks for the value of an argument, for a TPU.
        ConcretizationTypeError: The same, from JAX itself, for ``"cpu"``.
        CompilerMissing: If the chip is a TPU and there is no compiler for it here.
        PassesMissing: If the compiler wrote nothing down.
    """
    if chip == "cpu":
        place = SingleDeviceSharding(jax.devices("cpu")[0])
        jitted = function if hasattr(function, "trace") else jax.jit(function)
        shapes = jax.tree.map(lambda leaf: _placed(leaf, place), arguments)
        return _parsed(_snapshots(jitted.lower(*shapes)))
    if chip not in CHIPS:
        known = ", ".join(("cpu", *CHIPS))
        raise ValueError(f"expected one of {known}, got {chip!r}")
    lowering = lower_for(function, arguments, chip)
    name = lowering.name("passes 1")
    return kept(name, lambda: _snapshots(lowering.lowered), _parsed)


def _placed(leaf: Any, place: SingleDeviceSharding) -> jax.ShapeDtypeStruct:
    argument = shape_of(leaf)
    return jax.ShapeDtypeStruct(
        argument.shape,
        argument.dtype,
        sharding=place,
        weak_type=argument.weak_type,
    )


def _snapshots(lowered: Any) -> list[list[str]]:
    """Pipeline, pass and text of each module that differs from the one before."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_pass_re": ".*"}
        compiled = lowered.compile(compiler_options=options)
        texts = {
            path.name: path.read_text(encoding="utf-8")
            for path in sorted(Path(folder).iterdir())
            if _FILE.fullmatch(path.name) or _FIRST.fullmatch(path.name)
        }
    return _grouped(texts, compiled.as_text())


def _grouped(texts: dict[str, str], final: str) -> list[list[str]]:
    """Joins files with the same instructions into one snapshot, and names it.

    Args:
        texts: The texts of the dumped modules by the names of their files.
        final: The text of the compiled program.

    Returns:
        Pipeline, pass and text; the first has no pass, since nothing has run.

    Raises:
        PassesMissing: If the compiler has written no first module.
    """
    firsts = [found for name in texts if (found := _FIRST.fullmatch(name))]
    if not firsts:
        raise PassesMissing(
            "expected the compiler's dumps, found none: is the program taken from "
            "JAX's cache on disk (jax_compilation_cache_dir)?"
        )
    # A compiler may compile smaller modules on the way; the program is the last.
    module, first = firsts[-1]["module"], texts[firsts[-1][0]]
    files = [found for name in texts if (found := _FILE.fullmatch(name))]
    files = [found for found in files if found["module"] == module]
    snapshots = [["", "", first]]
    before, signed = _lines(parse(first)), True
    for found in sorted(files, key=lambda found: int(found["number"])):
        lines = _lines(parse(texts[found[0]]))
        if lines != before:
            snapshots.append([found["pipeline"], "", texts[found[0]]])
            before, signed = lines, found["after"] == _START
        if not signed and found["after"] and found["before"]:
            # A pass writes parts of its work down without naming what comes next.
            snapshots[-1][:2] = [found["pipeline"], found["after"]]
            signed = True
    if _lines(parse(final)) != before:
        snapshots.append(["", "", final])
    elif len(snapshots) > 1:
        snapshots[-1][2] = final  # it says that it is scheduled, too
    return snapshots


def _parsed(stored: Iterable[list[str]]) -> tuple[Pass, ...]:
    modules = [(pipeline, name, parse(text)) for pipeline, name, text in stored]
    return tuple(
        Pass(name, pipeline, before, after)
        for (_, _, before), (pipeline, name, after) in zip(
            modules, modules[1:], strict=False
        )
    )
