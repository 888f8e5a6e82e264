"""Compiles a function for a TPU chip that this machine does not have.

``libtpu`` holds the real TPU compiler and runs on any Linux x86-64 machine. It needs a
description of the chip (a topology) and the shapes of the arguments, never a device.
What comes back cannot run here; it can be read.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import (
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

from helpers import programs
from helpers.programs import Memory, Program
from helpers.store import digest, kept
from helpers.topology import CHIPS, CompilerMissing, devices_of, slice_mesh

__all__ = [
    "CHIPS",
    "CompilerMissing",
    "OutOfDeviceMemory",
    "Untraceable",
    "abstract",
    "compile_for",
    "slice_mesh",
]


class OutOfDeviceMemory(RuntimeError):
    """The program does not fit into the memory of its device."""


class Untraceable(TypeError):
    """The function needs values where a compiler has only shapes and types."""


def abstract(
    shape: tuple[int, ...], dtype: Any = "float32", sharding: Sharding | None = None
) -> jax.ShapeDtypeStruct:
    """An argument that has a shape and a type and no values.

    Args:
        shape: Its whole shape, over all devices, of numbers that are not negative.
        dtype: Its type, as JAX or NumPy names it.
        sharding: How it is cut over the devices of a ``slice_mesh``.

    Returns:
        What ``compile_for`` takes in place of an array.

    Raises:
        ValueError: If the shape is impossible or the sharding does not divide it, or
            JAX would change the type because 64-bit types are switched off.
    """
    lengths = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if not all(isinstance(n, int | np.integer) and n >= 0 for n in lengths):
        raise ValueError(f"expected a shape of whole numbers >= 0, got {shape!r}")
    wanted = jnp.dtype(dtype)
    if jax.dtypes.canonicalize_dtype(wanted) != wanted:
        raise ValueError(
            f"expected a type of at most 32 bits (jax_enable_x64 is off), got {wanted}"
        )
    if sharding is not None:
        sharding.shard_shape(lengths)  # raises ValueError if it does not divide
    return jax.ShapeDtypeStruct(lengths, wanted, sharding=sharding)


def _shaped(leaf: Any) -> jax.ShapeDtypeStruct:
    """The shape and type, strong or weak, that ``jit`` would give an argument."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    try:
        return jax.eval_shape(lambda array: array, leaf)
    except TypeError:
        raise ValueError(
            "expected arrays, numbers, abstract arguments or pytrees of them (bind "
            f"other arguments with functools.partial), got {leaf!r}"
        ) from None


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
    devices = devices_of(chip)[:1] if mesh is None else list(mesh.devices.flat)
    whole: Sharding = SingleDeviceSharding(devices[0])
    if mesh is not None:
        whole = NamedSharding(mesh, PartitionSpec())
    traced = _traced(function, arguments, whole)
    lowered = traced.lower()

    def make() -> dict[str, Any]:
        compiled = _compiled(lowered, options)
        program = Program(
            device_kind=devices[0].device_kind,
            device_count=len(devices),
            jaxpr_text=str(traced.jaxpr),
            stablehlo_text=lowered.as_text(),
            hlo_text=compiled.as_text(),
            memory=_memory(compiled.memory_analysis()),
            xla_cost=dict(compiled.cost_analysis()),
        )
        return program.to_json()

    # Which devices a mesh has in which place decides the groups of its collectives.
    places = [f"{d.device_kind} {d.id} {getattr(d, 'coords', '')}" for d in devices]
    chosen = repr(sorted((options or {}).items()))
    key = digest([_text_with_places(lowered), chosen, *places, *_versions()])
    return kept(key, make, Program.from_json)


def _traced(function: Callable, arguments: tuple, whole: Sharding) -> Any:
    """Traces for devices; arguments without a sharding on a mesh are put whole."""

    def placed(leaf: Any) -> jax.ShapeDtypeStruct:
        argument = _shaped(leaf)
        kept_sharding = isinstance(whole, NamedSharding) and argument.sharding
        return jax.ShapeDtypeStruct(
            argument.shape,
            argument.dtype,
            sharding=kept_sharding or whole,
            weak_type=argument.weak_type,
        )

    jitted = function if hasattr(function, "trace") else jax.jit(function)
    try:
        return jitted.trace(*jax.tree.map(placed, arguments))
    except jax.errors.ConcretizationTypeError as error:
        raise Untraceable(
            "expected a function of shapes and types, and this one asks for the value "
            f"of an argument (bind it with functools.partial): {_first_line(error)}"
        ) from error


def _memory(reported: Any) -> Memory:
    return Memory(
        arguments_bytes=reported.argument_size_in_bytes,
        outputs_bytes=reported.output_size_in_bytes,
        aliased_bytes=reported.alias_size_in_bytes,
        temporaries_bytes=reported.temp_size_in_bytes,
        code_bytes=reported.generated_code_size_in_bytes,
    )


def _compiled(lowered: Any, options: Mapping[str, str] | None) -> Any:
    try:
        return lowered.compile(compiler_options=dict(options) if options else None)
    except jax.errors.JaxRuntimeError as error:
        reason = _first_line(error)
        if "RESOURCE_EXHAUSTED" in reason:
            raise OutOfDeviceMemory(
                f"{reason.partition(': ')[2]} Use a larger chip or slice, smaller "
                "shapes or types, donation, or rematerialisation."
            ) from None
        if "No such compile option" in reason:
            raise ValueError(f"expected options of XLA, got {reason}") from None
        raise


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _text_with_places(lowered: Any) -> str:
    """What is compiled, and where its operations come from, which HLO repeats."""
    # A notebook's cells lie in a folder named after the process that runs them.
    return re.sub(r'"[^"]*ipykernel_\d+', '"', lowered.as_text(debug_info=True))


@functools.cache
def _versions() -> tuple[str, ...]:
    """Of everything that decides what a program becomes."""
    flags = [os.environ.get(name, "") for name in ("LIBTPU_INIT_ARGS", "XLA_FLAGS")]
    names = ("jax", "jaxlib", "libtpu")
    code = Path(__file__).read_bytes() + Path(programs.__file__).read_bytes()
    return (*map(metadata.version, names), *flags, hashlib.sha256(code).hexdigest())
