"""Compiles a function for a TPU chip that this machine does not have.

``libtpu`` holds the real TPU compiler and runs on any Linux x86-64 machine. It needs a
description of the chip (a topology) and the shapes of the arguments, never a device.
What comes back cannot run here; it can be read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from helpers import env

__all__ = [
    "CHIPS",
    "CompilerMissing",
    "Memory",
    "Program",
    "abstract",
    "compile_for",
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
    """A function compiled for one TPU device.

    Attributes:
        chip: The chip's short name, a key of ``CHIPS``.
        device_kind: The name the compiler has for it.
        hlo_text: The optimised, scheduled HLO module.
        memory: What it needs in device memory (compiled).
        flops: Arithmetic operations, of integers too, as XLA counts them: the body of
            a loop once, a transcendental function not at all (compiled).
    """

    chip: str
    device_kind: str
    hlo_text: str
    memory: Memory
    flops: float


def abstract(shape: tuple[int, ...], dtype: Any = "float32") -> jax.ShapeDtypeStruct:
    """An argument that has a shape and a type and no values.

    Args:
        shape: Its shape, of whole numbers that are not negative.
        dtype: Its type, as JAX or NumPy names it.

    Returns:
        What ``compile_for`` takes in place of an array.

    Raises:
        ValueError: If the shape is impossible, or JAX would change the type because
            64-bit types are switched off.
    """
    lengths = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if not all(isinstance(n, int | np.integer) and n >= 0 for n in lengths):
        raise ValueError(f"expected a shape of whole numbers >= 0, got {shape!r}")
    wanted = jnp.dtype(dtype)
    if jax.dtypes.canonicalize_dtype(wanted) != wanted:
        raise ValueError(
            f"expected a type of at most 32 bits (jax_enable_x64 is off), got {wanted}"
        )
    return jax.ShapeDtypeStruct(lengths, wanted)


@functools.cache
def _device(chip: str) -> Any:
    """The compile-only device of a chip."""
    if chip not in CHIPS:
        raise ValueError(f"expected a chip among {', '.join(CHIPS)}, got {chip!r}")
    if not env.has("libtpu"):
        raise CompilerMissing(
            "the TPU compiler (libtpu) is not installed here; it exists for Linux "
            "x86-64 only"
        )
    topology = topologies.get_topology_desc(platform="tpu", **CHIPS[chip])
    return topology.devices[0]


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


def compile_for(function: Callable, *arguments: Any, chip: str = "v5e") -> Program:
    """Compiles a function for one device of a TPU chip.

    Args:
        function: A function of arrays and pytrees, plain or wrapped by ``jax.jit``
            (the way to donate arguments). Bind static and keyword arguments with
            ``functools.partial`` first.
        *arguments: Arrays, scalars, ``abstract`` arguments, or pytrees of them; only
            shapes and types are used.
        chip: A key of ``CHIPS``.

    Returns:
        The compiled program.

    Raises:
        ValueError: If the chip is unknown or an argument is no array.
        CompilerMissing: If this machine has no TPU compiler.
    """
    device = _device(chip)
    sharding = SingleDeviceSharding(device)

    def on_chip(leaf: Any) -> jax.ShapeDtypeStruct:
        argument = _shaped(leaf)
        return jax.ShapeDtypeStruct(
            argument.shape,
            argument.dtype,
            sharding=sharding,
            weak_type=argument.weak_type,
        )

    jitted = function if hasattr(function, "lower") else jax.jit(function)
    compiled = jitted.lower(*jax.tree.map(on_chip, arguments)).compile()
    memory = compiled.memory_analysis()
    return Program(
        chip=chip,
        device_kind=device.device_kind,
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
