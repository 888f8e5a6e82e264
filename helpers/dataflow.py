"""Draws a compiled program as it stands: what it reads, runs and writes, in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.hlo_module import Computation, Instruction, Module
from helpers.hlo_queries import fusions
from helpers.plots import PALETTE, STYLE
from helpers.shapes import Array, Tuple
from helpers.units import format_bytes

__all__ = ["Flow", "Step", "draw", "flow"]

# They give another name to a value, or start a copy that its end is drawn for.
_NAMES_ONLY = ("bitcast", "get-tuple-element", "tuple", "copy-done")
_MAIN, _ON_DIE = PALETTE[1], PALETTE[0]


@dataclass(frozen=True)
class Flow:
    """An array on its way from the step that made it to one that reads it.

    Attributes:
        source: Name of the step, or of the parameter.
        target: Name of the step; ``result`` for what the program returns.
        array: Name of the value: a step may make several.
        size_bytes: As it is stored, in whole tiles.
        in_main_memory: Whether it lies in main memory (HBM on a TPU), not on the die.
    """

    source: str
    target: str
    array: str
    size_bytes: int
    in_main_memory: bool


@dataclass(frozen=True)
class Step:
    """An instruction of the entry that does or moves something.

    Attributes:
        name: Its name in the program.
        does: The opcodes in it, in order, without conversions and broadcasts.
    """

    name: str
    does: tuple[str, ...]


def flow(module: Module, ignore_below: int = 1 << 16) -> tuple[list[Step], list[Flow]]:
    """Finds what a program's entry runs, in order, and which arrays go between.

    Args:
        module: A compiled module. Loops, branches and calls are drawn as one step.
        ignore_below: Arrays of fewer bytes are left out, and so are steps that
            neither read nor write larger ones.

    Returns:
        The steps and the arrays between them.

    Raises:
        ValueError: If a shape has no known size.
    """
    entry = module.entry
    inside = {found.instruction.name: found.contents for found in fusions(module)}
    flows = [
        found
        for instruction in entry.instructions
        if instruction.opcode not in (*_NAMES_ONLY, "parameter")
        for found in _read(entry, instruction)
    ]
    flows += _returned(entry)
    flows = [found for found in flows if found.size_bytes >= ignore_below]
    ends = {end for found in flows for end in (found.source, found.target)}
    steps = [
        Step(instruction.name, _does(instruction, inside))
        for instruction in entry.instructions
        if instruction.name in ends and instruction.opcode != "parameter"
    ]
    return steps, flows


def _does(
    instruction: Instruction, inside: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    contents = inside.get(instruction.name, (instruction.opcode,))
    quiet = ("bitcast", "broadcast", "convert", "tuple", "copy-start")
    return tuple(each for each in contents if each not in quiet) or contents


def _read(entry: Computation, instruction: Instruction) -> list[Flow]:
    """What an instruction reads, each array once."""
    found = {}
    for operand in entry.operands(instruction):
        source = _origin(entry, operand)
        for shape in _arrays(operand.result):
            made = _flow(source, instruction.name, _value(entry, operand), shape)
            found[made.array, repr(shape)] = made
    return list(found.values())


def _returned(entry: Computation) -> list[Flow]:
    root = entry.root
    made = entry.operands(root) if root.opcode == "tuple" else [root]
    return [
        _flow(_origin(entry, value), "result", _value(entry, value), shape)
        for value in made
        for shape in _arrays(value.result)
    ]


def _origin(entry: Computation, instruction: Instruction) -> Instruction:
    """Follows names that stand for a value to the instruction that made it."""
    while instruction.opcode in _NAMES_ONLY and instruction.operands:
        instruction = entry.operands(instruction)[0]
    return instruction


def _arrays(shape: Array | Tuple) -> list[Array]:
    return [leaf for leaf in shape.leaves if leaf.dtype not in ("token", "opaque")]


def _value(entry: Computation, instruction: Instruction) -> str:
    while instruction.opcode == "bitcast":
        instruction = entry.operands(instruction)[0]
    return instruction.name


def _flow(source: Instruction, target: str, array: str, shape: Array) -> Flow:
    main = shape.layout.memory_space == 0
    return Flow(source.name, target, array, shape.stored_bytes, main)


def draw(
    programs: Mapping[str, Module], *, title: str = "", ignore_below: int = 1 << 16
) -> Figure:
    """Draws programs side by side: main memory as a bar, each step as a box beside it.

    An arrow from the bar is an array that the step reads from main memory, one to the
    bar an array that it writes there. An arrow between boxes never left the die.

    Args:
        programs: For each panel's title, a module compiled for a TPU.
        title: One claim that the figure shows.
        ignore_below: As for `flow`.

    Returns:
        The figure; shown when it is a cell's last value.

    Raises:
        ValueError: If there is nothing to draw.
    """
    found = {name: flow(module, ignore_below) for name, module in programs.items()}
    if not found or not all(steps for steps, _ in found.values()):
        raise ValueError(f"expected programs with steps to draw, got {list(programs)}")
    rows = max(_rows(*each) for each in found.values())
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            1,
            len(found),
            figsize=(3.3 * len(found), 0.9 + 0.42 * rows),
            layout="constrained",
            squeeze=False,
        )
        for panel, (name, (steps, flows)) in zip(axes[0], found.items(), strict=True):
            _panel(panel, steps, flows, rows)
            panel.set_title(name, fontsize=10, loc="center")
        figure.suptitle(title, fontsize=11, x=0.02, ha="left")
    plt.close(figure)
    return figure


def _crossings(step: Step, flows: list[Flow]) -> list[tuple[int, bool]]:
    """Bytes that a step moves over the bar, and whether it reads them."""
    read = [
        (f.size_bytes, True)
        for f in flows
        if f.target == step.name and f.in_main_memory
    ]
    # What several steps read is written once.
    written = {
        (f.array, f.size_bytes): False
        for f in flows
        if f.source == step.name and f.in_main_memory
    }
    return read + [(size, False) for _, size in written]


def _rows(steps: list[Step], flows: list[Flow]) -> int:
    return sum(max(len(_crossings(step, flows)), 1) + 1 for step in steps)


def _panel(axes: Axes, steps: list[Step], flows: list[Flow], rows: int) -> None:
    tops, row = {}, 0
    for step in steps:
        crossings = _crossings(step, flows)
        height = max(len(crossings), 1)
        tops[step.name] = (row, height)
        axes.text(
            2.95,
            row + height / 2,
            "\n".join(_shortened(step.does)),
            ha="center",
            va="center",
            fontsize=8,
            bbox={"boxstyle": "round,pad=0.4", "fc": "#EEF3F6", "ec": "#555555"},
            zorder=3,
        )
        for number, (size, reads) in enumerate(crossings):
            y = row + (number + 0.5) * height / len(crossings)
            ends = ((0.32, y), (2.0, y)) if reads else ((2.0, y), (0.32, y))
            _arrow(axes, *ends, _MAIN)
            axes.text(
                1.15, y - 0.1, format_bytes(size), ha="center", va="bottom", fontsize=8
            )
        row += height + 1
    for each in flows:
        if not each.in_main_memory and {each.source, each.target} <= set(tops):
            _on_die(axes, tops[each.source], tops[each.target], each.size_bytes)
    moved = sum(size for step in steps for size, _ in _crossings(step, flows))
    axes.axvspan(0, 0.3, color=_MAIN, alpha=0.85)
    axes.text(
        0.15,
        rows / 2 - 0.5,
        "main memory (HBM)",
        rotation=90,
        color="white",
        ha="center",
        va="center",
        fontsize=8,
    )
    axes.text(
        2.3,
        rows - 0.4,
        f"over the bar: {format_bytes(moved)}",
        ha="center",
        fontsize=9,
        color=_MAIN,
    )
    axes.set(xlim=(0, 4.4), ylim=(rows, -0.6))
    axes.axis("off")


def _on_die(
    axes: Axes, source: tuple[int, int], target: tuple[int, int], size: int
) -> None:
    start, end = source[0] + source[1] / 2 + 0.5, target[0] + target[1] / 2 - 0.5
    _arrow(axes, (3.3, start), (3.3, end), _ON_DIE)
    axes.text(
        3.36,
        (start + end) / 2 + 0.1,
        format_bytes(size),
        fontsize=8,
        va="center",
        color=_ON_DIE,
    )


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str
) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.6}
    axes.annotate("", xy=end, xytext=start, arrowprops=style)


def _shortened(opcodes: tuple[str, ...], most: int = 3) -> list[str]:
    """The first opcodes and, if there are more, how many."""
    if len(opcodes) <= most:
        return list(opcodes)
    return [*opcodes[:most], f"and {len(opcodes) - most} more"]
