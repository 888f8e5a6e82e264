"""Tables of numbers that keep what speaks for each: sources, dates, conflicts.

A table is a TOML file beside the modules. Each value is in the unit that its column is
stored in (GiB, TFLOP/s, as sources print them) and is read in base units.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any

__all__ = ["Conflict", "Fact", "Row", "Source", "read_table"]

_SCALES = {
    "": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "GB/s": 1e9,
    "GHz": 1e9,
    "TFLOP/s": 1e12,
    "TOP/s": 1e12,
}


@dataclass(frozen=True)
class Source:
    """Where a value comes from.

    Attributes:
        key: Its name in ``chips.toml``.
        text: Author, title and place.
        date: Of publication, or the day read where the text says so.
        kind: For example ``"vendor"``, ``"own run"`` or ``"third-party notes"``.
    """

    key: str
    text: str
    date: str
    kind: str


@dataclass(frozen=True)
class Conflict:
    """A value that another source gives, in the unit of its fact."""

    value: Any
    sources: tuple[Source, ...]
    note: str


@dataclass(frozen=True)
class Fact:
    """A value with what speaks for it and against it.

    Attributes:
        value: In ``unit``; None if not published or not applicable.
        unit: A base unit, such as ``"bytes/s"``; empty for words.
        scope: What it counts, such as ``"per link, one way"``.
        sources: Those that give the value, or were searched for it in vain.
        confidence: How far they agree, and whether all are third-party notes.
        conflicts: Other values, with their sources.
        choice: Why the value was chosen over the others; empty without conflicts.
        note: What else to know.
    """

    value: Any
    unit: str
    scope: str
    sources: tuple[Source, ...]
    confidence: str
    conflicts: tuple[Conflict, ...]
    choice: str
    note: str


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        facts: The fact of each column.
        extra: What the row has besides, as the file has it.
    """

    facts: Mapping[str, Fact]
    extra: Mapping[str, Any]


def _scaled(value: Any, scale: float) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if scale == 1 or isinstance(value, str) or value is None:
        return value
    # Capacities are whole bytes, rates are floats.
    return round(value * scale) if isinstance(scale, int) else value * scale


def _fact(entry: dict, field: dict, sources: Mapping[str, Source]) -> Fact:
    scale = _SCALES[field.get("stored", "")]
    conflicts = tuple(
        Conflict(
            value=_scaled(other["value"], scale),
            sources=tuple(sources[key] for key in other["sources"]),
            note=other.get("note", ""),
        )
        for other in entry.get("conflicts", [])
    )
    return Fact(
        value=_scaled(entry.get("value"), scale),
        unit=field["unit"],
        scope=field["scope"],
        sources=tuple(sources[key] for key in entry["sources"]),
        confidence=entry["confidence"],
        conflicts=conflicts,
        choice=entry.get("choice", ""),
        note=entry.get("note", ""),
    )


def read_table(name: str) -> Mapping[str, Row]:
    """Reads a table of this package.

    Args:
        name: Of a module whose table is the file of the same name ending in ``.toml``;
            its parts are ``sources``, ``fields`` (unit and scope of each column) and
            the rows, under the name of the table.

    Returns:
        The rows by name, in the order of the file.

    Raises:
        ValueError: If a row lacks a column.
    """
    text = files("helpers").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    sources = {key: Source(key, **entry) for key, entry in table["sources"].items()}
    columns = table["fields"]
    rows = {}
    for key, entry in table[name].items():
        if missing := columns.keys() - entry.keys():
            raise ValueError(f"expected {sorted(missing)} in {name}.{key}, got none")
        facts = {c: _fact(entry[c], column, sources) for c, column in columns.items()}
        extra = {c: entry[c] for c in entry.keys() - columns.keys()}
        rows[key] = Row(MappingProxyType(facts), MappingProxyType(extra))
    return MappingProxyType(rows)
