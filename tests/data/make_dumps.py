"""Makes the stored dumps: ``python tests/data/make_dumps.py`` with JAX and libtpu.

Run it once with each pair of versions whose text the tests shall know. Versions are in
the file names; the compilers' own counts are kept beside the text, for comparison.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.update(
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
    JAX_PLATFORMS="cpu",
    TPU_ACCELERATOR_TYPE="v5p-8",
    TPU_MIN_LOG_LEVEL="3",
    TPU_SKIP_MDS_QUERY="1",
    TPU_WORKER_HOSTNAMES="localhost",
    XLA_FLAGS="--xla_force_host_platform_device_count=8",
)

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

HERE = Path(__file__).resolve().parent
LIBTPU = f"libtpu-{importlib.metadata.version('libtpu')}"
JAX = f"jax-{importlib.metadata.version('jax')}"
KEPT_COSTS = ("flops", "bytes accessed", "transcendentals")


def matmul(x, w):
    return x @ w


def convolution(x, kernel):
    return lax.conv_general_dilated(
        x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def layers(weights, x):
    return lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, weights)[0]


def nested(x):
    def outer(carry, _):
        inner = lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) * 2.0, carry)
        return inner + 1.0, None

    return lax.scan(outer, x, length=3)[0]


def gradient(weights, x):
    return jax.grad(lambda w: jnp.sum(layers(w, x) ** 2))(weights)


def softmax(x):
    return jax.nn.softmax(x, axis=-1)


def exponential(x):
    return jnp.exp(x * 2.0)


ONE_DEVICE = {
    "matmul": (matmul, ((256, 512), "bfloat16"), ((512, 384), "bfloat16")),
    "convolution": (
        convolution,
        ((8, 32, 32, 16), "float32"),
        ((3, 3, 16, 32), "float32"),
    ),
    "layers": (layers, ((12, 256, 256), "float32"), ((32, 256), "float32")),
    "nested": (nested, ((32, 256), "float32")),
    "gradient": (gradient, ((12, 256, 256), "float32"), ((32, 256), "float32")),
    "softmax": (softmax, ((128, 512), "float32")),
}
BUNDLES = {
    "matmul": (matmul, ((256, 256), "bfloat16"), ((256, 256), "bfloat16")),
    "exponential": (exponential, ((4096, 1024), "float32")),
    "rows": (matmul, ((1024, 256), "bfloat16"), ((256, 256), "bfloat16")),
}
CHIPS_FOR_BUNDLES = {"rows": ("v5e", "v6e")}


def training_step(mesh, layer_count, batch):
    """A sharded step of gradient descent, its layers unrolled."""

    def loss(params, x):
        for up, down in params:
            x = x + jax.nn.gelu(x @ up) @ down
        return jnp.mean(x.astype(jnp.float32) ** 2)

    def step(params, x):
        gradients = jax.grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

    def array(*shape, axes):
        sharding = NamedSharding(mesh, P(*axes))
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding)

    up = array(1024, 4096, axes=("data", "model"))
    down = array(4096, 1024, axes=("model", "data"))
    params = [(up, down)] * layer_count
    shardings = [(up.sharding, down.sharding)] * layer_count
    jitted = jax.jit(step, donate_argnums=0, out_shardings=shardings)
    x = array(batch, 1024, axes=("data", None))
    return jitted.lower(params, x).compile()


def communication(mesh):
    """Every collective once, by hand."""

    def body(x):
        x = lax.all_to_all(x, "data", 1, 1, tiled=True)
        x = lax.ppermute(x, "data", [(i, (i + 1) % 4) for i in range(4)])
        part = lax.psum_scatter(x, "model", scatter_dimension=1, tiled=True)
        whole = lax.all_gather(part, "data", axis=0, tiled=True)
        return lax.pmax(whole, "data"), lax.psum(part, ("data", "model"))

    mapped = jax.shard_map(
        body,
        mesh=mesh,
        in_specs=P("data", "model"),
        out_specs=(P(None, "model"), P()),
        check_vma=False,
    )
    sharding = NamedSharding(mesh, P("data", "model"))
    x = jax.ShapeDtypeStruct((1024, 2048), jnp.float32, sharding=sharding)
    return jax.jit(mapped).lower(x).compile()


def on_one(device, function, *arguments):
    sharding = device and SingleDeviceSharding(device)
    shapes = [jax.ShapeDtypeStruct(s, t, sharding=sharding) for s, t in arguments]
    return jax.jit(function).lower(*shapes).compile()


def store(path, text):
    text = re.sub(r'"/[^"]*/([^"/]+\.py)"', r'"\1"', text)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def save(name, compiled, costs):
    store(HERE / "hlo" / f"{name}.hlo.txt.gz", compiled.as_text())
    found = compiled.cost_analysis()
    costs[name] = {key: int(found[key]) for key in KEPT_COSTS if key in found}


def save_bundles(name, chip):
    """Compiles in a process of its own: libtpu reads its flags once."""
    with tempfile.TemporaryDirectory() as folder:
        flags = f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true"
        environment = os.environ | {"LIBTPU_INIT_ARGS": flags}
        command = [sys.executable, __file__, "--bundles", name, chip]
        subprocess.run(command, env=environment, check=True)
        for kind in ("final_bundles", "final_hlo-static-per-bundle-utilization"):
            (found,) = [
                path
                for path in Path(folder).glob(f"*fusion-*-{kind}.txt")
                if "analysis" not in path.name
            ]
            stored = HERE / "bundles" / f"{name}-{chip}-{LIBTPU}.{kind}.txt.gz"
            store(stored, found.read_text())


def main():
    def tpu(shape):
        return topologies.get_topology_desc(shape, platform="tpu").devices

    if sys.argv[1:2] == ["--bundles"]:
        on_one(tpu(f"{sys.argv[3]}:2x2")[0], *BUNDLES[sys.argv[2]])
        return
    costs = {}
    meshes = {}
    for chip, devices, version in (
        ("v5e", tpu("v5e:4x2"), LIBTPU),
        ("cpu", jax.devices(), JAX),
    ):
        grid = np.array(devices).reshape(4, 2)
        meshes[chip] = Mesh(grid, ("data", "model"), axis_types=(AxisType.Auto,) * 2)
        device = devices[0] if chip == "v5e" else None
        for name, (function, *arguments) in ONE_DEVICE.items():
            compiled = on_one(device, function, *arguments)
            save(f"{name}-{chip}-{version}", compiled, costs)
        step = training_step(meshes[chip], 1, 512)
        save(f"step-{chip}-{version}", step, costs)
        save(f"communication-{chip}-{version}", communication(meshes[chip]), costs)
    unrolled = training_step(meshes["v5e"], 10, 8192)
    save(f"unrolled-v5e-{LIBTPU}", unrolled, costs)
    path = HERE / "hlo" / f"costs-{JAX}.json"
    path.write_text(json.dumps(costs, indent=1, sort_keys=True) + "\n")
    for name in BUNDLES:
        for chip in CHIPS_FOR_BUNDLES.get(name, ("v5e",)):
            save_bundles(name, chip)


if __name__ == "__main__":
    main()
