"""The compilers' texts that ``tests/data/make_dumps.py`` has stored, by name."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path

DATA = Path(__file__).parent / "data"
LIBTPUS = ("libtpu-0.0.42.1", "libtpu-0.0.50.1")
JAXES = ("jax-0.10.2", "jax-0.12.0.1")
# Every stored module but the two small ones kept as plain text.
MODULES = sorted(
    path.name.removesuffix(".hlo.txt.gz")
    for path in (DATA / "hlo").glob("*.hlo.txt.gz")
)


@functools.cache
def module_text(name: str) -> str:
    """The text of a stored HLO module, such as ``matmul-cpu-jax-0.10.2``."""
    plain = DATA / "hlo" / f"{name}.hlo.txt"
    if plain.exists():
        return plain.read_text(encoding="utf-8")
    packed = DATA / "hlo" / f"{name}.hlo.txt.gz"
    return gzip.decompress(packed.read_bytes()).decode()


@functools.cache
def costs() -> dict[str, dict[str, int]]:
    """What ``cost_analysis`` said of each stored module when it was compiled."""
    found: dict[str, dict[str, int]] = {}
    for path in (DATA / "hlo").glob("costs-*.json"):
        found |= json.loads(path.read_text(encoding="utf-8"))
    return found


def bundle_texts(name: str) -> tuple[str, str]:
    """A stored fusion's bundles and its table of busy units."""
    kinds = ("final_bundles", "final_hlo-static-per-bundle-utilization")
    paths = [DATA / "bundles" / f"{name}.{kind}.txt.gz" for kind in kinds]
    bundles, table = (gzip.decompress(path.read_bytes()).decode() for path in paths)
    return bundles, table
