"""Times the compiler on the training step of Llama 3.1 8B for 256 chips.

``python tests/compile_8b.py`` prints seconds, peak memory and what was compiled, as
JSON; nothing is taken from the disk. Another number of layers may be given.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from functools import partial
from pathlib import Path

from helpers import env

os.environ["BOOK_CACHE"] = ""
env.prepare()

import jax  # noqa: E402

from helpers.aot import compile_for  # noqa: E402
from helpers.layout import Layout  # noqa: E402
from helpers.published_models import config_from  # noqa: E402
from helpers.topology import slice_mesh  # noqa: E402
from helpers.training_step import (  # noqa: E402
    abstract_state,
    abstract_tokens,
    adamw,
    train_step,
)

CONFIGS = Path(__file__).parent / "data" / "model_configs.json"
TOKENS = 2048


def main(layers: int = 32) -> None:
    """Compiles the step once and says what it took."""
    cases = json.loads(CONFIGS.read_text(encoding="utf-8"))
    fields = cases["Llama 3.1 8B"]["fields"] | {"num_hidden_layers": layers}
    config = config_from(fields)
    mesh = slice_mesh("v5e:16x16", {"data": 256})
    layout = Layout(mesh, {"batch": "data", "embed": "data"})
    optimizer = adamw()
    how = {"config": config, "optimizer": optimizer, "layout": layout}
    step = jax.jit(partial(train_step, remat="full", **how), donate_argnums=0)
    state = abstract_state(config, optimizer, layout)
    began = time.perf_counter()
    program = compile_for(step, state, abstract_tokens(256, TOKENS, layout), mesh=mesh)
    found = {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time(),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "flops": program.flops,
        "total_bytes": program.memory.total_bytes,
        "devices": program.device_count,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
