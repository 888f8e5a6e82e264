"""TPU slices that are not here, as devices to compile for.

``libtpu`` holds the real TPU compiler and runs on any Linux x86-64 machine. A topology
describes the chips; its devices can be compiled for and cannot run anything.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh

from helpers import env

__all__ = ["CHIPS", "CompilerMissing", "devices_of", "slice_mesh"]

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


def _require(chip: str) -> None:
    if chip not in CHIPS:
        raise ValueError(f"expected a chip among {', '.join(CHIPS)}, got {chip!r}")
    if not env.has("libtpu"):
        raise CompilerMissing(
            "the TPU compiler (libtpu) is not installed here; it exists for Linux "
            "x86-64 only"
        )


# A process's first topology loads the compiler: in two threads at once, one fails.
_loading = threading.Lock()


@functools.cache
def devices_of(chip: str, shape: str = "") -> list[Any]:
    """Gives the compile-only devices of a slice.

    Args:
        chip: A key of ``CHIPS``.
        shape: Such as ``"16x16"``; the smallest slice unless given.

    Returns:
        Its JAX devices, of which a v2, v3 or TPU7x chip has two.

    Raises:
        ValueError: If the chip or the shape is unknown.
        CompilerMissing: If this machine has no TPU compiler.
    """
    _require(chip)
    options = dict(CHIPS[chip])
    if shape:
        options["topology_name"] = f"{chip}:{shape}"
    try:
        with _loading:
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
    if not shape:
        raise ValueError(f"expected a slice such as 'v5e:16x16', got {name!r}")
    devices = devices_of(chip, shape)
    sizes = tuple(axes.values())
    if math.prod(sizes) != len(devices):
        raise ValueError(
            f"expected axes that multiply to the {len(devices)} devices of {name}, "
            f"got {dict(axes)}"
        )
    return Mesh(np.array(devices).reshape(sizes), tuple(axes))
