"""Compiles a function for a TPU chip, or a slice of many, that this machine lacks.

The compiler needs a description of the chips (a topology) and the shapes of the
arguments, never a device. What comes back cannot run here; it can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.sharding import Mesh

from helpers.lowering import Lowering, Untraceable, abstract, lower_for
from helpers.programs import Memory, Program
from helpers.store import kept
from helpers.topology import CHIPS, CompilerMissing, slice_mesh

__all__ = [
    "CHIPS",
    "CompilerMissing",
    "Memory",
    "OutOfDeviceMemory",
    "Program",
    "Untraceable",
    "abstract",
    "compile_for",
    "slice_mesh",
]


class OutOfDeviceMemory(RuntimeError):
    """The program does not fit into the memory of its device."""


def compile_for(
    function: Callable,
    *arguments: Any,
    chip: str = "v5e",
    mesh: Mesh | None = None,
    options: Mapping[str, str] | None = None,
) -> Program:
    """Compiles a function for one device of a TPU chip, or for a slice.

    The result is kept on disk, by everything that it depends on, and taken from there
    the next time (see ``helpers.store``).

    Args:
        function: A function of arrays and pytrees, plain or wrapped by ``jax.jit``
            (the way to donate arguments). Bind static and keyword arguments with
            ``functools.partial`` first.
        *arguments: Arrays, scalars, ``abstract`` arguments, or pytrees of them; only
            shapes, types and, with a mesh, the shardings of ``abstract`` arguments are
            used.
        chip: A key of ``CHIPS``, for a program on one device.
        mesh: A ``slice_mesh``, in place of the chip; arguments without a sharding are
            then copied to every device.
        options: XLA's options by name, such as ``{"xla_tpu_…": "false"}``.

    Returns:
        The compiled program.

    Raises:
        ValueError: If the chip is unknown, an argument is no array, or an option is
            not one.
        Untraceable: If the function asks for the value of an argument.
        OutOfDeviceMemory: If the program does not fit.
        CompilerMissing: If this machine has no TPU compiler.
    """
    lowering = lower_for(function, arguments, chip, mesh)
    chosen = dict(options or {})

    def make() -> dict[str, Any]:
        return _compiled(lowering, chosen).to_json()

    name = lowering.name("program 1", repr(sorted(chosen.items())))
    return kept(name, make, Program.from_json)


def _compiled(lowering: Lowering, options: dict[str, str]) -> Program:
    try:
        compiled = lowering.lowered.compile(compiler_options=options or None)
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).strip().partition("\n")[0]
        if "RESOURCE_EXHAUSTED" in reason:
            raise OutOfDeviceMemory(
                f"{reason.partition(': ')[2]} Use a larger chip or slice, smaller "
                "shapes or types, donation, or rematerialisation."
            ) from None
        if "No such compile option" in reason:
            raise ValueError(f"expected options of XLA, got {reason}") from None
        raise
    memory = compiled.memory_analysis()
    return Program(
        device_kind=lowering.devices[0].device_kind,
        device_count=len(lowering.devices),
        jaxpr_text=str(lowering.traced.jaxpr),
        stablehlo_text=lowering.lowered.as_text(),
        hlo_text=compiled.as_text(),
        memory=Memory(
            arguments_bytes=memory.argument_size_in_bytes,
            outputs_bytes=memory.output_size_in_bytes,
            aliased_bytes=memory.alias_size_in_bytes,
            temporaries_bytes=memory.temp_size_in_bytes,
            code_bytes=memory.generated_code_size_in_bytes,
        ),
        xla_cost=dict(compiled.cost_analysis()),
    )
