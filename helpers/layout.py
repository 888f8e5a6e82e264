"""How the arrays of a model lie on a mesh: one small table of named axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from helpers.model_parameters import Parameter

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """Which named axis of an array is cut over which axis of the mesh.

    Attributes:
        mesh: The devices.
        rules: The mesh axis, or axes, of each name; a name without a rule is not cut.
        gathered: Names of parameters' axes that are made whole before use (FSDP).
    """

    mesh: Mesh
    rules: Mapping[str, str | tuple[str, ...]]
    gathered: tuple[str, ...] = ("embed",)

    def sharding(self, *axes: str | None) -> NamedSharding:
        """How an array whose axes have these names is cut.

        Args:
            *axes: A name, or None, for each axis.

        Returns:
            The sharding.
        """
        cut = (None if axis is None else self.rules.get(axis) for axis in axes)
        return NamedSharding(self.mesh, PartitionSpec(*cut))

    def ready(self, parameter: Parameter, array: jax.Array, dtype: Any) -> jax.Array:
        """Makes a parameter ready for use: narrow first, then gathered.

        Args:
            parameter: Its entry in the table.
            array: The parameter, or one layer of it.
            dtype: The type of products.

        Returns:
            The array, whole along the axes in ``gathered``, if it has any of them.
        """
        if not set(self.gathered) & set(parameter.axes):
            return array
        axes = parameter.axes[-array.ndim :]
        kept = (None if axis in self.gathered else axis for axis in axes)
        narrow = array.astype(dtype)
        return jax.lax.with_sharding_constraint(narrow, self.sharding(*kept))
