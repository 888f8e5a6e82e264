"""Asks SCALE-Sim what random matrix products cost on a systolic array.

Run it with a Python that has SCALE-Sim 3, which needs an environment of its own:

    python3.11 -m venv .venv-scalesim
    .venv-scalesim/bin/pip install scalesim "numpy<2" "pandas<3"
    .venv-scalesim/bin/python tests/data/make_scalesim.py

It writes the products and SCALE-Sim's counts to ``tests/data/scalesim``. With ``-`` it
prints them instead, with the seconds that each took SCALE-Sim.
"""

from __future__ import annotations

import importlib.metadata
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from scalesim.layout_utils import layouts
from scalesim.scale_config import scale_config
from scalesim.single_layer_sim import single_layer_sim
from scalesim.topology_utils import topologies

STORED = Path(__file__).resolve().parent / "scalesim"
ARRAYS = ((4, 4), (8, 8), (5, 7), (16, 4), (3, 12), (32, 32))
# Known from before, to see that it is run as it was then.
KNOWN = [(32, 32, "ws", *mkn) for mkn in ((128, 32, 32), (128, 64, 64), (100, 50, 70))]
CONFIG = """
[general]
run_name = counts
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {cols}
IfmapSramSzkB = 65536
FilterSramSzkB = 65536
OfmapSramSzkB = 65536
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
ReadRequestBuffer = 64
WriteRequestBuffer = 64
Dataflow = {dataflow}
[layout]
IfmapCustomLayout = False
FilterCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
"""


def products(seed=5):
    """Rows, columns, dataflow, M, K, N: four of each kind, most with edge tiles."""
    chance = random.Random(seed)
    for rows, cols in ARRAYS:
        for dataflow in ("ws", "os", "is"):
            for _ in range(4):
                most = 3 * max(rows, cols)
                lengths = [chance.randint(1, most) for _ in range(3)]
                yield (rows, cols, dataflow, *lengths)
    yield from KNOWN


def run(rows, cols, dataflow, m, k, n):
    """Simulates one product; SCALE-Sim writes its reports only if asked to."""
    with tempfile.TemporaryDirectory() as folder:
        config, topology = Path(folder, "array.cfg"), Path(folder, "gemm.csv")
        config.write_text(CONFIG.format(rows=rows, cols=cols, dataflow=dataflow))
        topology.write_text(f"Layer,M,N,K,Sparsity,\nproduct,{m},{n},{k},1:1,\n")
        settings, layers, layout = scale_config(), topologies(), layouts()
        settings.read_conf_file(str(config))
        layers.load_arrays(topofile=str(topology), mnk_inputs=True)
    simulation = single_layer_sim()
    simulation.set_params(
        layer_id=0,
        config_obj=settings,
        topology_obj=layers,
        layout_obj=layout,
        verbose=False,
    )
    begin = time.perf_counter()
    simulation.run()
    seconds = time.perf_counter() - begin
    _, cycles, stalls, *_ = simulation.get_compute_report_items()
    return {
        "rows": rows,
        "cols": cols,
        "dataflow": dataflow,
        "m": m,
        "k": k,
        "n": n,
        "cycles": int(cycles),
        "stalls": int(stalls),
        "a_reads": int(simulation.ifmap_sram_reads),
        "b_reads": int(simulation.filter_sram_reads),
        "writes": int(simulation.ofmap_sram_writes),
        "seconds": seconds,
    }


def main():
    found = [run(*product) for product in products()]
    if sys.argv[1:] == ["-"]:
        print(json.dumps(found))
        return
    for product in found:
        del product["seconds"]
    lines = ",\n".join(json.dumps(product) for product in found)
    STORED.mkdir(exist_ok=True)
    version = importlib.metadata.version("scalesim")
    (STORED / f"scalesim-{version}.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
