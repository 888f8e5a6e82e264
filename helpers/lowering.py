"""Traces and lowers a function for TPU devices that are not here.

What comes out is what JAX hands to the compiler, and a name for it: a digest of all
that decides what the compiler will make of it.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
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

from helpers.store import digest
from helpers.topology import devices_of

__all__ = ["Lowering", "Untraceable", "abstract", "lower_for", "shape_of"]


class Untraceable(TypeError):
    """The function needs values where a compiler has only shapes and types."""


@dataclass(frozen=True)
class Lowering:
    """A function on its way to the compiler.

    Attributes:
        jitted: The function, wrapped by ``jax.jit``.
        arguments: Shapes and types of its arguments, with shardings.
        traced: JAX's record of it.
        lowered: What is compiled.
        devices: The compile-only devices it is for.
    """

    jitted: Callable
    arguments: tuple
    traced: Any
    lowered: Any
    devices: list[Any]

    def name(self, *more: str) -> str:
        """Names what the compiler will make of it.

        Args:
            *more: What else decides it, such as options.

        Returns:
            A digest of the program, the places in the source that HLO repeats, the
            devices, the versions and ``more``.
        """
        # A notebook's cells lie in a folder named after the process that runs them.
        text = self.lowered.as_text(debug_info=True)
        text = re.sub(r'"[^"]*ipykernel_\d+', '"', text)
        # Which device of a mesh is where decides the groups of its collectives.
        places = [
            f"{device.device_kind} {device.id} {getattr(device, 'coords', '')}"
            for device in self.devices
        ]
        return digest([text, *places, *_versions(), *more])


@functools.cache
def _versions() -> list[str]:
    flags = [os.environ.get(name, "") for name in ("LIBTPU_INIT_ARGS", "XLA_FLAGS")]
    return [*map(metadata.version, ("jax", "jaxlib", "libtpu")), *flags]


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


def shape_of(leaf: Any) -> jax.ShapeDtypeStruct:
    """Gives the shape and type, strong or weak, that ``jit`` would give an argument.

    Args:
        leaf: An array, a number, or what ``abstract`` made.

    Returns:
        Shape and type; a sharding only if ``abstract`` gave it one.

    Raises:
        ValueError: If it is nothing that an array can be made of.
    """
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    try:
        return jax.eval_shape(lambda array: array, leaf)
    except TypeError:
        raise ValueError(
            "expected arrays, numbers, abstract arguments or pytrees of them (bind "
            f"other arguments with functools.partial), got {leaf!r}"
        ) from None


def lower_for(
    function: Callable, arguments: tuple, chip: str = "v5e", mesh: Mesh | None = None
) -> Lowering:
    """Traces and lowers a function for one device of a chip, or for a slice.

    Args:
        function: A function of arrays and pytrees, plain or wrapped by ``jax.jit``.
        arguments: Arrays, scalars, ``abstract`` arguments, or pytrees of them.
        chip: A key of ``CHIPS``, for one device.
        mesh: A ``slice_mesh``, in place of the chip; arguments without a sharding are
            then copied to every device.

    Returns:
        What the compiler takes.

    Raises:
        ValueError: If the chip is unknown or an argument is no array.
        Untraceable: If the function asks for the value of an argument.
        CompilerMissing: If this machine has no TPU compiler.
    """
    devices = devices_of(chip)[:1] if mesh is None else list(mesh.devices.flat)
    whole: Sharding = SingleDeviceSharding(devices[0])
    if mesh is not None:
        whole = NamedSharding(mesh, PartitionSpec())

    def placed(leaf: Any) -> jax.ShapeDtypeStruct:
        argument = shape_of(leaf)
        return jax.ShapeDtypeStruct(
            argument.shape,
            argument.dtype,
            sharding=mesh and argument.sharding or whole,
            weak_type=argument.weak_type,
        )

    jitted = function if hasattr(function, "trace") else jax.jit(function)
    shapes = jax.tree.map(placed, arguments)
    try:
        traced = jitted.trace(*shapes)
    except jax.errors.ConcretizationTypeError as error:
        reason = str(error).strip().partition("\n")[0]
        raise Untraceable(
            "expected a function of shapes and types, and this one asks for the value "
            f"of an argument (bind it with functools.partial): {reason}"
        ) from error
    return Lowering(jitted, shapes, traced, traced.lower(), devices)
