"""Where the book runs, and JAX's devices made ready before JAX is imported.

This module needs nothing beyond the standard library until `describe` or
`devices` is called: `prepare` has to run before the first ``import jax``.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

__all__ = [
    "COMPILE_ONLY",
    "describe",
    "devices",
    "has",
    "has_tpu",
    "prepare",
    "where",
]

COMPILE_ONLY = MappingProxyType(
    {
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_ACCELERATOR_TYPE": "v5p-8",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_MIN_LOG_LEVEL": "3",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }
)
"""Settings under which libtpu compiles in silence and looks for no chip.

`prepare` sets them where there is no TPU. Where there is one they would describe a
machine that does not exist, so there they belong only in the environment of a
child process that compiles, together with ``JAX_PLATFORMS=cpu``.
"""

_PCI_DEVICES = Path("/sys/bus/pci/devices")
_DEV = Path("/dev")
_GOOGLE = "0x1ae0"
# PCI device ids of TPU v2 to TPU8t, from hardware_utils.py of JAX 0.12.0.1.
_TPU_IDS = frozenset(
    "0x0027 0x0056 0x005e 0x0062 0x0063 0x006f 0x0076 0x007c 0x0083".split()
)
# Google's network and storage devices carry its vendor id too.
_STORAGE_OR_NETWORK = ("0x01", "0x02")
_GPU_NODES = ("nvidia0", "nvidiactl", "dxg", "kfd")
_COUNT_FLAG = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
_NAMES = {"torch": "PyTorch", "jax": "JAX", "numpy": "NumPy"}
_NEEDS = re.compile(r"#\s*needs:\s*(.+)")


def where() -> str:
    """Names the place this process runs in.

    Returns:
        ``"kaggle"``, ``"colab"``, ``"ci"`` or ``"local"``.
    """
    # Kaggle's image is built on Colab's, so it is asked for first.
    if "KAGGLE_KERNEL_RUN_TYPE" in os.environ:
        return "kaggle"
    if "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules:
        return "colab"
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return "ci"
    return "local"


def has(package: str) -> bool:
    """Says whether a package can be imported, without importing it.

    Args:
        package: The name an ``import`` statement would use.

    Returns:
        True if it is installed or already imported.
    """
    if package in sys.modules:
        return sys.modules[package] is not None
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def has_tpu() -> bool:
    """Says whether a TPU is attached to this machine, without importing JAX.

    Only hardware is asked, never the environment, which `prepare` itself changes.

    Returns:
        True if the machine has a TPU's device node or PCI entry.
    """
    if any(_DEV.glob("accel[0-9]*")):
        return True
    passed_through = any(_DEV.glob("vfio/[0-9]*"))
    for entry in _PCI_DEVICES.glob("*"):
        if _read(entry / "vendor") != _GOOGLE:
            continue
        if _read(entry / "device") in _TPU_IDS:
            return True
        # A TPU newer than the list must not be hidden either.
        if passed_through and not _read(entry / "class").startswith(
            _STORAGE_OR_NETWORK
        ):
            return True
    return False


def prepare(cpu_devices: int = 8) -> None:
    """Makes JAX's devices ready; call it before the first ``import jax``.

    Where there is no TPU, libtpu is told to stay silent; where there is no
    accelerator that JAX can use, JAX is told to use the CPU. What the user set
    already is kept. Inside IPython, cells that begin with ``# needs: package`` are
    from now on skipped, with one sentence, where the package is missing.

    Args:
        cpu_devices: The least number of devices that JAX's CPU backend shall have.

    Raises:
        ValueError: If the number of devices is not a positive whole number.
        RuntimeError: If JAX has already started with fewer CPU devices.
    """
    _require_count(cpu_devices, "cpu_devices")
    if not has_tpu():
        for name, value in COMPILE_ONLY.items():
            os.environ.setdefault(name, value)
        if not _has_other_accelerator():
            os.environ.setdefault("JAX_PLATFORMS", "cpu")
    count = max(cpu_devices, _requested_cpu_devices())
    # A jaxpr printed in colour leaves escape codes in a notebook's outputs.
    os.environ.setdefault("JAX_PPRINT_USE_COLOR", "false")
    if "jax" in sys.modules:
        _prepare_imported_jax(count)
    os.environ["JAX_NUM_CPU_DEVICES"] = str(count)
    _skip_cells_that_need_missing_packages()


def describe() -> str:
    """Describes this run in one line: place, devices and versions.

    Returns:
        For example ``local, 8 CPU devices; Python 3.11.7, JAX 0.10.2, …``.
    """
    import jax

    found = jax.devices()
    noun = "device" if len(found) == 1 else "devices"
    kind = found[0].device_kind
    label = "CPU" if found[0].platform == "cpu" else kind
    versions = [f"Python {platform.python_version()}"]
    for package in ("jax", "jaxlib", "libtpu", "numpy", "torch"):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        versions.append(f"{_NAMES.get(package, package)} {version}")
    return f"{where()}, {len(found)} {label} {noun}; {', '.join(versions)}"


def devices(count: int) -> list:
    """Gives devices of the default backend or, if it has too few, of the CPU.

    Args:
        count: How many JAX devices are needed.

    Returns:
        A list of that many `jax.Device`. One printed sentence says so if they are
        CPU devices because an accelerator has too few.

    Raises:
        ValueError: If the count is not positive, or neither backend has so many.
    """
    import jax

    _require_count(count, "count")
    default = jax.devices()
    if len(default) >= count:
        return default[:count]
    cpu = default if default[0].platform == "cpu" else _cpu_devices()
    if len(cpu) < count:
        raise ValueError(
            f"expected at least {count} devices, got {len(default)} of the default "
            f"backend ({default[0].platform}) and {len(cpu)} of the CPU: call "
            f"prepare(cpu_devices={count}) before JAX starts"
        )
    print(
        f"This needs {count} devices and the {default[0].device_kind} backend has "
        f"{len(default)}, so it runs on {count} CPU devices."
    )
    return cpu[:count]


def _require_count(count: int, name: str) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"expected {name} to be a whole number >= 1, got {count!r}")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip().lower()
    except OSError:
        return ""


def _has_other_accelerator() -> bool:
    # Plugins without hardware are common (Colab's CPU runtime has CUDA's), and so
    # is hardware without a plugin (WSL). Off Linux there are no nodes to ask for.
    plugins = metadata.entry_points(group="jax_plugins")
    nodes = any((_DEV / node).exists() for node in _GPU_NODES)
    return bool(plugins) and (nodes or sys.platform != "linux")


def _requested_cpu_devices() -> int:
    flag = _COUNT_FLAG.search(os.environ.get("XLA_FLAGS", ""))
    setting = os.environ.get("JAX_NUM_CPU_DEVICES", "")
    # JAX gives its own setting precedence over XLA's flag.
    if setting.isdigit():
        return int(setting)
    return int(flag[1]) if flag else 0


def _prepare_imported_jax(count: int) -> None:
    import jax

    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        # The backend has started; that is harmless if it has enough devices.
        found = len(_cpu_devices())
        if found < count:
            raise RuntimeError(
                f"JAX has already started with {found} CPU devices, expected {count}: "
                "restart the kernel and run prepare() in the first cell"
            ) from None
        return
    if jax.config.jax_platforms is None:
        jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS"))


def _cpu_devices() -> list:
    import jax

    try:
        return jax.devices("cpu")
    except RuntimeError:
        # JAX_PLATFORMS names an accelerator alone.
        return []


def _skip_cells_that_need_missing_packages() -> None:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell and _skip_if_missing not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(_skip_if_missing)


def _skip_if_missing(lines: list[str]) -> list[str]:
    needs = _NEEDS.match(lines[0]) if lines else None
    packages = [name.strip() for name in needs[1].split(",")] if needs else []
    missing = [_NAMES.get(name, name) for name in packages if not has(name)]
    if not missing:
        return lines
    verb = "is" if len(missing) == 1 else "are"
    sentence = (
        f"Skipped: this cell needs {' and '.join(missing)}, which {verb} not "
        "installed here."
    )
    return [f"print({sentence!r})\n"]
