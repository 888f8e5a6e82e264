"""Compiles a function for a TPU chip that this machine does not have.

``libtpu`` holds the real TPU compiler and runs on any Linux x86-64 machine. It needs a
description of the chip (a topology) and the shapes of the arguments, never a device.
What comes back cannot run here; it can be read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import (
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

from helpers import env

__all__ = [
    "CHIPS",
    "CompilerMissing",
    "Memory",
    "Program",
    "abstract",
    "compile_for",
    "slice_mesh",
]

# The smallest topology that both libtpu 0.0.42 and 0.0.52 accept for each chip; a
# program is compiled for the first device in it. A v2, v3 or TPU7x chip shows as two
# devices, one per TensorCore; v4 would too without its option, and does not when it
# is attached.
CHIPS = {
    "v2": {"topology_name": "v2:2x2"},
    "v3": {"topology_name": "v3:2x2"},
    "v4": {"topology_name": "v4:2x2x1", "chip_config_name": "megacore"},
    "v5e": {"topology_name": "v5e:2x2"},
    "v5p": {"topology_name": "v5p:2x2x1"},
    "v6e": {"topology_name": "v6e:2x2"},
    "tpu7x": {"topology_name": "tpu7x:2x2x1"},
}


class CompilerMissing(RuntimeError):
    """This machine has no TPU compiler."""


@dataclass(frozen=True)
class Memory:
    """Device memory of a compiled program, in bytes (compiled).

    Attributes:
        arguments_bytes: Arguments, padded to the tiles the chip stores.
        outputs_bytes: Results, padded likewise.
        aliased_bytes: Results that reuse the memory of a donated argument.
        temporaries_bytes: Room for values that live only inside the program.
        code_bytes: The program itself.
    """

    arguments_bytes: int
    outputs_bytes: int
    aliased_bytes: int
    temporaries_bytes: int
    code_bytes: int

    @property
    def total_bytes(self) -> int:
        """What must fit at once: everything, with aliased results counted once."""
        return (
            self.arguments_bytes
            + self.outputs_bytes
            - self.aliased_bytes
            + self.temporaries_bytes
            + self.code_bytes
        )


@dataclass(frozen=True)
class Program:
    """A function compiled for one TPU device, or for all devices of a slice.

    A program for many devices is one program that each of them runs on its own part of
    the data; memory and operations are those of one device.

    Attributes:
        device_kind: The name the compiler has for the chip.
        device_count: The number of JAX devices it runs on.
        hlo_text: The optimised, scheduled HLO module.
        memory: What it needs in device memory (compiled).
        flops: Arithmetic operations, of integers too, as XLA counts them: the body of
            a loop once, a transcendental function not at all (compiled).
    """

    device_kind: str
    device_count: int
    hlo_text: str
    memory: Memory
    flops: float


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


def _require(chip: str) -> None:
    if chip not in CHIPS:
        raise ValueError(f"expected a chip among {', '.join(CHIPS)}, got {chip!r}")
    if not env.has("libtpu"):
        raise CompilerMissing(
            "the TPU compiler (libtpu) is not installed here; it exists for Linux "
            "x86-64 only"
        )


@functools.cache
def _devices(chip: str, shape: str) -> list[Any]:
    """The compile-only devices of a slice, such as v5e and 16x16."""
    _require(chip)
    options = CHIPS[chip] | {"topology_name": f"{chip}:{shape}"}
    try:
        return topologies.get_topology_desc(platform="tpu", **options).devices
    except jax.errors.JaxRuntimeError as error:
        raise ValueError(
            "expected a slice shape that the compiler knows, such as 2x2 or 16x16 for "
            f"{chip}, got {shape!r}: {str(error).partition(': ')[2]}"
        ) from None


def slice_mesh(name: str, axes: Mapping[str, int]) -> Mesh:
    """Lays the devices of a TPU slice out along named axes, to compile for all.

    Args:
        name: Chip and shape of the slice, such as ``"v5e:16x16"`` or ``"v5p:2x2x2"``.
        axes: The size of each mesh axis, in order; together all devices.

    Returns:
        A mesh of compile-only devices, of ``Auto`` axes.

    Raises:
        ValueError: If the chip or the shape is unknown, or the axes do not multiply to
            the number of devices.
        CompilerMissing: If this machine has no TPU compiler.
    """
    chip, _, shape = name.partition(":")
    devices = _devices(chip, shape)
    sizes = tuple(axes.values())
    if math.prod(sizes) != len(devices):
        raise ValueError(
            f"expected axes that multiply to the {len(devices)} devices of {name}, "
            f"got {dict(axes)}"
        )
    return Mesh(np.array(devices).reshape(sizes), tuple(axes))


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
    function: Callable, *arguments: Any, chip: str = "v5e", mesh: Mesh | None = None
) -> Program:
    """Compiles a function for one device of a TPU chip, or for a slice.

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

    Returns:
        The compiled program.

    Raises:
        ValueError: If the chip is unknown or an argument is no array.
        CompilerMissing: If this machine has no TPU compiler.
    """
    if mesh is None:
        _require(chip)
        device = _devices(chip, CHIPS[chip]["topology_name"].partition(":")[2])[0]
        whole: Sharding = SingleDeviceSharding(device)
    else:
        device = mesh.devices.flat[0]
        whole = NamedSharding(mesh, PartitionSpec())

    def placed(leaf: Any) -> jax.ShapeDtypeStruct:
        argument = _shaped(leaf)
        return jax.ShapeDtypeStruct(
            argument.shape,
            argument.dtype,
            sharding=mesh and argument.sharding or whole,
            weak_type=argument.weak_type,
        )

    jitted = function if hasattr(function, "lower") else jax.jit(function)
    compiled = jitted.lower(*jax.tree.map(placed, arguments)).compile()
    memory = compiled.memory_analysis()
    return Program(
        device_kind=device.device_kind,
        device_count=1 if mesh is None else mesh.size,
        hlo_text=compiled.as_text(),
        memory=Memory(
            arguments_bytes=memory.argument_size_in_bytes,
            outputs_bytes=memory.output_size_in_bytes,
            aliased_bytes=memory.alias_size_in_bytes,
            temporaries_bytes=memory.temp_size_in_bytes,
            code_bytes=memory.generated_code_size_in_bytes,
        ),
        # XLA leaves the entry out where there is nothing to count.
        flops=compiled.cost_analysis().get("flops", 0.0),
    )
