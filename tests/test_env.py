"""JAX's devices made ready, on every kind of machine, before JAX is imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from helpers import env

MINE = ("JAX_", "XLA_", "TPU_", "ALLOW_", "LIBTPU_", "COLAB_", "KAGGLE_")


def run(script: str, **settings: str) -> subprocess.CompletedProcess:
    """Runs a script in a fresh Python that has none of this process's settings."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(MINE) and name != "CI"
    }
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**clean, **settings},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine without accelerators: its folders, its environment, no JAX yet."""
    monkeypatch.setattr(env, "_DEV", tmp_path / "dev")
    monkeypatch.setattr(env, "_PCI_DEVICES", tmp_path / "pci")
    monkeypatch.setattr(env.sys, "platform", "linux")
    monkeypatch.setattr(env.metadata, "entry_points", lambda group: [])
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    for name in list(os.environ):
        if name.startswith(MINE) or name == "CI":
            monkeypatch.delenv(name)
    (tmp_path / "dev").mkdir()
    (tmp_path / "pci").mkdir()
    yield tmp_path
    # prepare() writes to the environment behind monkeypatch's back.
    for name in list(os.environ):
        if name.startswith(MINE):
            del os.environ[name]


def add_pci(machine, vendor: str, device: str, kind: str = "0xff0000") -> None:
    folder = machine / "pci" / f"0000:00:0{len(list((machine / 'pci').iterdir()))}.0"
    folder.mkdir()
    for name, text in [("vendor", vendor), ("device", device), ("class", kind)]:
        (folder / name).write_text(f"{text}\n")


def add_node(machine, name: str) -> None:
    path = machine / "dev" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({}, "local"),
        ({"CI": "true"}, "ci"),
        ({"CI": "false"}, "local"),
        ({"COLAB_RELEASE_TAG": "release-colab"}, "colab"),
        ({"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}, "kaggle"),
        ({"KAGGLE_KERNEL_RUN_TYPE": "Batch", "COLAB_RELEASE_TAG": "x"}, "kaggle"),
    ],
)
def test_where_names_the_place(machine, monkeypatch, settings, place):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert env.where() == place


def test_has_finds_packages_without_importing_them(monkeypatch):
    assert env.has("xml.dom")
    assert not env.has("no_such_package")
    assert not env.has("no_such_package.part")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not env.has("torch")


def test_tpu_is_found_by_its_pci_id(machine):
    assert not env.has_tpu()
    add_pci(machine, "0x8086", "0x1237")
    add_pci(machine, "0x1ae0", "0x0063")
    assert env.has_tpu()


def test_tpu_is_found_by_its_device_node(machine):
    add_node(machine, "accel0")
    assert env.has_tpu()


def test_other_accelerators_are_no_tpu(machine):
    add_node(machine, "accel/accel0")  # Linux's own class of accelerators
    add_node(machine, "vfio/0")
    add_pci(machine, "0x8086", "0x643e", "0x120000")
    assert not env.has_tpu()


def test_google_network_and_storage_are_no_tpu(machine):
    add_node(machine, "vfio/0")
    add_pci(machine, "0x1ae0", "0x0042", "0x020000")
    add_pci(machine, "0x1ae0", "0x001f", "0x010802")
    assert not env.has_tpu()


def test_unknown_google_accelerator_counts_when_passed_through(machine):
    add_pci(machine, "0x1ae0", "0x0fff", "0x120000")
    assert not env.has_tpu()
    add_node(machine, "vfio/0")
    assert env.has_tpu()


def test_pci_ids_cover_those_of_the_installed_jax():
    from jax._src import hardware_utils

    assert set(hardware_utils._TPU_PCI_DEVICE_IDS) <= env._TPU_IDS


def test_prepare_silences_libtpu_and_takes_the_cpu(machine):
    env.prepare()
    assert {name: os.environ[name] for name in env.COMPILE_ONLY} == env.COMPILE_ONLY
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    assert os.environ["JAX_NUM_CPU_DEVICES"] == "8"
    assert not env.has_tpu()


def test_prepare_hides_no_tpu(machine):
    add_pci(machine, "0x1ae0", "0x006f")
    env.prepare()
    mine = {name for name in os.environ if name.startswith(MINE)}
    assert mine == {"JAX_NUM_CPU_DEVICES", "JAX_PPRINT_USE_COLOR"}


@pytest.mark.parametrize("node", ["nvidia0", "dxg", "kfd"])
def test_prepare_hides_no_gpu_that_jax_can_use(machine, monkeypatch, node):
    add_node(machine, node)
    monkeypatch.setattr(env.metadata, "entry_points", lambda group: ["xla_cuda13"])
    env.prepare()
    assert "JAX_PLATFORMS" not in os.environ
    assert os.environ["TPU_MIN_LOG_LEVEL"] == "3"


def test_prepare_takes_the_cpu_for_a_gpu_that_jax_cannot_use(machine):
    add_node(machine, "nvidia0")
    env.prepare()
    assert os.environ["JAX_PLATFORMS"] == "cpu"


def test_prepare_takes_the_cpu_for_a_plugin_without_a_gpu(machine, monkeypatch):
    monkeypatch.setattr(env.metadata, "entry_points", lambda group: ["xla_cuda13"])
    env.prepare()
    assert os.environ["JAX_PLATFORMS"] == "cpu"


def test_prepare_keeps_what_the_user_set(machine, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cuda,cpu")
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v5litepod-8")
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp")
    env.prepare()
    assert os.environ["JAX_PLATFORMS"] == "cuda,cpu"
    assert os.environ["TPU_ACCELERATOR_TYPE"] == "v5litepod-8"
    assert os.environ["XLA_FLAGS"] == "--xla_dump_to=/tmp"


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"JAX_NUM_CPU_DEVICES": "16"}, "16"),
        ({"JAX_NUM_CPU_DEVICES": "2"}, "8"),
        ({"XLA_FLAGS": "--a=1 --xla_force_host_platform_device_count=12"}, "12"),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}, "8"),
    ],
)
def test_prepare_gives_at_least_the_devices_asked_for(
    machine, monkeypatch, settings, count
):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    env.prepare(8)
    env.prepare(4)
    assert os.environ["JAX_NUM_CPU_DEVICES"] == count


@pytest.mark.parametrize("count", [0, -1, 2.0, "8", True, None])
def test_counts_are_positive_whole_numbers(count):
    with pytest.raises(ValueError, match=f"cpu_devices .* >= 1, got {count!r}"):
        env.prepare(count)
    with pytest.raises(ValueError, match=f"count .* >= 1, got {count!r}"):
        env.devices(count)


def test_prepared_jax_is_quiet_and_has_its_devices():
    done = run(
        "from helpers.env import prepare, describe, devices\n"
        "prepare(5)\n"
        "import jax\n"
        "jax.config.update('jax_num_cpu_devices', 5)\n"
        "prepare(6)\n"
        "print(len(jax.devices()), jax.default_backend())\n"
        "prepare(6)\n"
        "prepare(3)\n"
        "print(len(devices(4)))\n"
        "print(describe())\n"
        "for refused in (lambda: prepare(7), lambda: devices(7)):\n"
        "    try: refused()\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
        "prepare(3)\n",
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:2] == ["6 cpu", "4"]
    assert re.match(r"local, 6 CPU devices; Python 3\.\d+\.\d+, JAX \d", lines[2])
    assert lines[3:] == [
        "RuntimeError JAX has already started with 6 CPU devices, expected 7: restart "
        "the kernel and run prepare() in the first cell",
        "ValueError expected at least 7 devices, got 6 of the default backend (cpu) "
        "and 6 of the CPU: call prepare(cpu_devices=7) before JAX starts",
    ]


def test_late_prepare_is_harmless_when_it_changes_nothing():
    done = run(
        "import jax\n"
        "from helpers.env import prepare\n"
        "jax.config.update('jax_num_cpu_devices', 8)\n"
        "assert len(jax.devices()) == 8\n"
        "prepare(8)\n"
        "prepare(4)\n"
        "print('quiet')\n",
        JAX_PLATFORMS="cpu",
    )
    assert (done.stdout, done.stderr) == ("quiet\n", "")


class Device:
    """What `devices` asks of a JAX device."""

    def __init__(self, platform: str, kind: str):
        self.platform, self.device_kind = platform, kind


@pytest.fixture
def one_tpu(monkeypatch):
    """A JAX whose default backend is one TPU chip beside eight CPU devices."""
    import jax

    found = {"tpu": [Device("tpu", "TPU v5 lite")], "cpu": [Device("cpu", "cpu")] * 8}
    monkeypatch.setattr(jax, "devices", lambda backend="tpu": found[backend])
    return found


def test_devices_prefers_the_default_backend(one_tpu, capsys):
    assert env.devices(1) == one_tpu["tpu"]
    assert capsys.readouterr().out == ""


def test_devices_falls_back_to_the_cpu_and_says_so(one_tpu, capsys):
    assert env.devices(4) == one_tpu["cpu"][:4]
    assert capsys.readouterr().out == (
        "This needs 4 devices and the TPU v5 lite backend has 1, so it runs on 4 CPU "
        "devices.\n"
    )


def test_devices_refuses_more_than_exist(one_tpu):
    message = r"at least 9 devices, got 1 of the default backend \(tpu\) and 8 of the"
    with pytest.raises(ValueError, match=message):
        env.devices(9)


def test_devices_without_a_cpu_backend(one_tpu, monkeypatch):
    import jax

    def devices(backend="tpu"):
        if backend == "cpu":
            raise RuntimeError("Unknown backend cpu")
        return one_tpu["tpu"]

    monkeypatch.setattr(jax, "devices", devices)
    with pytest.raises(ValueError, match="and 0 of the CPU"):
        env.devices(2)


def test_describe_names_an_accelerator(one_tpu):
    assert re.match(r"\w+, 1 TPU v5 lite device; Python 3", env.describe())


def test_cells_that_need_a_missing_package_are_skipped():
    done = run(
        "import sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from helpers.env import prepare\n"
        "shell = InteractiveShell.instance()\n"
        "sys.modules['torch'] = sys.modules['libtpu'] = None\n"
        "prepare(); prepare()\n"
        "for cell in ('# needs: torch\\nimport torch', '#needs: torch, json, libtpu',\n"
        "             '# needs: json\\nprint(\"ran\")', 'print(\"# needs: torch\")'):\n"
        "    shell.run_cell(cell).raise_error()\n"
    )
    assert done.stdout.splitlines() == [
        "Skipped: this cell needs PyTorch, which is not installed here.",
        "Skipped: this cell needs PyTorch and libtpu, which are not installed here.",
        "ran",
        "# needs: torch",
    ], done.stderr
