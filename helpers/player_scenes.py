"""What a systolic array's recorded registers show, cycle by cycle, as short texts.

Nothing is computed but shares of cycles: every value is one that the simulator held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from helpers.systolic import Run
from helpers.systolic_counts import Array

__all__ = ["QUEUE", "Scene", "scenes"]

QUEUE = 3
"""How many values that wait before a row or a column are shown."""

Place = tuple[str, int, int]


@dataclass(frozen=True)
class Scene:
    """One cycle.

    Attributes:
        texts: What stands where. A place is its kind with two numbers. With a cell's
            row and column: ``kept``, ``next``, ``work``, ``sum``, ``up`` (a sum on its
            way out) and the arrows ``to-right``, ``to-below``, ``sum-below`` and
            ``sum-above``. Outside, with the row or column and a place in its queue:
            ``left``, ``top`` and ``out``.
        busy: Which cells multiply, [rows, cols].
        entering: What enters from the left and from the top.
        leaving: Sums that leave, each with its column from 1.
        done: Multiplications up to here.
        utilization: The share of cells times cycles up to here that multiplied.
        sentence: The cycle in words.
    """

    texts: Mapping[Place, str]
    busy: np.ndarray
    entering: tuple[tuple[str, ...], tuple[str, ...]]
    leaving: tuple[tuple[str, int], ...]
    done: int
    utilization: float
    sentence: str


def scenes(run: Run, array: Array) -> list[Scene]:
    """Puts what a run recorded into texts.

    Args:
        run: Of `helpers.systolic.simulate`, with ``record=True``.
        array: The array on which it ran.

    Returns:
        A scene for each cycle.

    Raises:
        ValueError: If nothing was recorded, or on an array of another shape or kind.
    """
    if not run.frames:
        raise ValueError("expected a run with frames: simulate(..., record=True)")
    found = run.frames["busy"].shape[1:]
    across = "leaving" in run.frames
    if found != (array.rows, array.cols) or across != (array.dataflow == "os"):
        raise ValueError(
            f"expected a run on {array.rows}x{array.cols} ({array.dataflow}), got one "
            f"on {found[0]}x{found[1]} ({'os' if across else 'ws or is'})"
        )
    registers = _Registers(run)
    return [_scene(registers, array, time) for time in range(len(run.busy))]


class _Registers:
    """The texts of all registers, "" where there is no element."""

    def __init__(self, run: Run) -> None:
        self.busy = run.frames["busy"].astype(bool)
        self.text = {
            name: np.where(run.present[name], _written(values), "")
            for name, values in run.frames.items()
            if name != "busy"
        }

    def __getitem__(self, name: str) -> np.ndarray:
        return self.text[name]


def _written(values: np.ndarray) -> np.ndarray:
    if np.issubdtype(values.dtype, np.integer):
        return values.astype(str)
    return np.vectorize("{:.3g}".format)(values.astype(np.float32))


def _scene(registers: _Registers, array: Array, time: int) -> Scene:
    across = array.dataflow == "os"
    top, out = ("operand_down", "leaving") if across else ("arriving", "sum")
    exit_row = 0 if across else -1
    texts = (_across if across else _kept)(registers, time)
    for name, side in (("left", registers["operand"][:, :, 0]), ("top", None)):
        entries = registers[top][:, 0] if side is None else side
        for lane in range(entries.shape[1]):
            waiting = entries[time + 1 : time + 1 + QUEUE, lane]
            texts |= {(name, lane, i): text for i, text in enumerate(waiting)}
    gone = registers[out][: time + 1, exit_row]
    for col in range(array.cols):
        last = [text for text in gone[::-1, col] if text][:QUEUE]
        texts |= {("out", col, i): text for i, text in enumerate(last)}
    leaving = tuple((text, col + 1) for col, text in enumerate(gone[-1]) if text)
    entering = (
        tuple(filter(None, registers["operand"][time, :, 0])),
        tuple(filter(None, registers[top][time, 0])),
    )
    done = int(registers.busy[: time + 1].sum())
    share = done / (array.cells * (time + 1))
    busy = registers.busy[time]
    cycles, total = len(registers.busy), int(registers.busy.sum())
    parts = [
        f"Cycle {time + 1} of {cycles}: {busy.sum()} of {array.cells} cells multiply.",
        _said(entering[0], "from the left"),
        _said(entering[1], "from the top"),
        " ".join(f"The sum {text} leaves column {col}." for text, col in leaving),
        f"So far {done} of {total} multiplications; utilisation {share:.0%}.",
    ]
    return Scene(
        {place: str(text) for place, text in texts.items() if text},
        busy,
        entering,
        leaving,
        done,
        share,
        " ".join(filter(None, parts)),
    )


def _said(values: tuple[str, ...], whence: str) -> str:
    if not values:
        return ""
    *most, last = values
    verb = "come" if most else "comes"
    listed = f"{', '.join(most)} and {last}" if most else last
    return f"{whence.capitalize()} {verb} {listed}."


def _kept(registers: _Registers, time: int) -> dict[Place, str]:
    texts: dict[Place, str] = {}
    for row, col in np.ndindex(registers.busy.shape[1:]):
        at = (time, row, col)
        weight, arriving = registers["weight"][at], registers["arriving"][at]
        texts["kept", row, col] = weight
        texts["next", row, col] = arriving or registers["next"][at]
        texts["to-below", row, col] = "↓" if arriving else ""
        texts["work", row, col] = _product(registers, at, registers["operand"], weight)
        texts["to-right", row, col] = "→" if registers["operand"][at] else ""
        texts["sum", row, col] = registers["sum"][at]
        above = time and row and registers["sum"][time - 1, row - 1, col]
        texts["sum-below", row, col] = "↓" if above else ""
    return texts


def _across(registers: _Registers, time: int) -> dict[Place, str]:
    texts: dict[Place, str] = {}
    for row, col in np.ndindex(registers.busy.shape[1:]):
        at = (time, row, col)
        below, leaving = registers["operand_down"][at], registers["leaving"][at]
        texts["work", row, col] = _product(registers, at, registers["operand"], below)
        texts["to-right", row, col] = "→" if registers["operand"][at] else ""
        texts["to-below", row, col] = "↓" if below else ""
        texts["sum", row, col] = registers["sum"][at]
        texts["up", row, col] = leaving
        texts["sum-above", row, col] = "↑" if leaving else ""
    return texts


def _product(registers: _Registers, at: tuple, operand: np.ndarray, other: str) -> str:
    if registers.busy[at]:
        return f"{operand[at]} × {other}"
    return operand[at]
