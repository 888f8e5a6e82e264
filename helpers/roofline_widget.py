"""The roofline of every chip, with operations on it, to be explored without a kernel.

All numbers are counted or taken from the table of chips here, in Python; the script
divides and compares them, and a test holds its answers against `roofline.bound`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from helpers.chips import CHIPS
from helpers.costs import Counted, intensity
from helpers.roofline import Roof, bound, roof
from helpers.roofline_picture import BOX, axes_around, picture
from helpers.tables import KINDS, Table, table
from helpers.units import format_number
from helpers.widgets import Fragment, companion, fragment

__all__ = ["Operation", "explore"]

_ON_DEVICE = [name for name, found in CHIPS.items() if found.devices]


@dataclass(frozen=True)
class Operation:
    """Some work at several batch sizes.

    Attributes:
        name: What it is, with its sizes.
        kind: Where its counts come from: ``"compiled"`` for a program's, ``"bound"``
            for a formula that moves each array once.
        by_batch: Its FLOPs and bytes on one JAX device, by batch size.
        link_bytes: What it sends over the links, by batch size; empty for nothing.
        dtype: Of its matrix products: the peak it is held against.
    """

    name: str
    kind: str
    by_batch: Mapping[int, Counted]
    link_bytes: Mapping[int, float] = field(default_factory=dict)
    dtype: str = "bf16"


def explore(
    operations: Sequence[Operation],
    *,
    title: str,
    chips: Sequence[str] = tuple(_ON_DEVICE),
    start: str = "v5e",
    batch: int | None = None,
    links: int = 2,
) -> Fragment:
    """Draws rooflines of one JAX device of each chip, to choose among.

    Args:
        operations: What to place on them, all at the same batch sizes.
        title: The claim that the figure shows.
        chips: Names of the chips.
        start: The chip that is chosen first.
        batch: The batch size that is chosen first; the middle one unless given.
        links: How many of a device's links carry data at once, one way each; a chip of
            two devices has half of them for each.

    Returns:
        The figure.

    Raises:
        ValueError: If there are no operations, their batch sizes differ, a kind or a
            chip is unknown, or an operation counts nothing.
    """
    batches = _batches(operations)
    batch = batches[len(batches) // 2] if batch is None else batch
    if start not in chips or batch not in batches:
        raise ValueError(
            f"expected to start with one of {list(chips)} and one of {batches}, got "
            f"{start!r} and {batch!r}"
        )
    dtypes = list(dict.fromkeys(operation.dtype for operation in operations))
    rates = {name: _rates(name, dtypes, links) for name in chips}
    listed = [_listed(operation, batches) for operation in operations]
    axes = axes_around(rates, listed)
    data = {
        "chips": rates,
        "batches": batches,
        "operations": listed,
        "axes": axes,
        "box": list(BOX),
        "start": [start, batches.index(batch)],
        "links": links,
    }
    answers = _answers(operations, chips, batch)
    text = (
        f"Rooflines of one device of {', '.join(chips)}: the speed that can be reached "
        "against FLOP/byte, both logarithmic. On each, the slope of memory meets the "
        f"flat peak at the ridge. {len(operations)} operations lie on the roof of the "
        "chosen chip; the table says what bounds each on each chip."
    )
    return fragment(
        "roofline",
        data,
        title=title,
        text=text,
        content=picture(rates, listed, axes, start, batches.index(batch)),
        script=companion(__file__, "js"),
        style=companion(__file__, "css"),
        table=answers,
    )


def _batches(operations: Sequence[Operation]) -> list[int]:
    if not operations:
        raise ValueError("expected at least one operation, got none")
    batches = list(operations[0].by_batch)
    for operation in operations:
        if operation.kind not in KINDS:
            raise ValueError(f"expected kind in {KINDS}, got {operation.kind!r}")
        if list(operation.by_batch) != batches or not batches:
            raise ValueError(
                f"expected the batch sizes {batches} for {operation.name!r}, got "
                f"{list(operation.by_batch)}"
            )
        for work in operation.by_batch.values():
            if not all(1 <= n < math.inf for n in (work.flops, work.bytes_accessed)):
                raise ValueError(
                    f"expected {operation.name!r} to compute and to move something, "
                    f"got {work.flops} FLOPs and {work.bytes_accessed} bytes"
                )
        sent = operation.link_bytes
        if sent and not (set(batches) <= set(sent) and min(sent.values()) >= 1):
            raise ValueError(
                f"expected {operation.name!r} to send something at each of {batches}, "
                f"or nothing at all, got {dict(sent)}"
            )
    return batches


def _rates(name: str, dtypes: Sequence[str], links: int) -> dict[str, Any]:
    """The rates of one device: peaks by type, of memory, and of its links."""
    if name not in CHIPS:
        raise ValueError(f"expected a chip of {list(CHIPS)}, got {name!r}")
    found = CHIPS[name]
    peaks = {
        dtype: _roof(name, dtype).flops_per_s if found.peak_per_s(dtype) else None
        for dtype in dtypes
    }
    with_links = _roof(name, links=links if found.ici_links else 0)
    return {
        "peak": peaks,
        "memory": with_links.bytes_per_s,
        "network": with_links.link_bytes_per_s,
    }


def _roof(name: str, dtype: str = "bf16", links: int = 0) -> Roof:
    return roof(name, per="device", dtype=dtype, links=links)


def _listed(operation: Operation, batches: Sequence[int]) -> dict[str, Any]:
    work = [operation.by_batch[batch] for batch in batches]
    sent = operation.link_bytes
    return {
        "name": operation.name,
        "kind": operation.kind,
        "dtype": operation.dtype,
        "flops": [round(each.flops) for each in work],
        "memory": [round(each.bytes_accessed) for each in work],
        "network": [round(sent[b]) for b in batches] if sent else None,
    }


def _answers(
    operations: Sequence[Operation], chips: Sequence[str], batch: int
) -> Table:
    rows = []
    for operation in operations:
        work = operation.by_batch[batch]
        row = {
            "operation": f"{operation.name} ({operation.kind})",
            "FLOP/byte": format_number(float(f"{intensity(work):.3g}")),
        }
        for name in chips:
            known = CHIPS[name].peak_per_s(operation.dtype)
            found = known and bound(work, _roof(name, operation.dtype))
            row[name] = (
                f"{found.limited_by} {found.peak_fraction:.0%}" if found else None
            )
        rows.append(row)
    return table(
        rows,
        f"what sets the bound at batch {batch}, compute or memory (HBM), and the share "
        "of the peak that cannot be exceeded",
        kind="bound",
    )
