"""The table of chips: complete, sourced, in agreement with JAX and the compiler."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import io
import pickle
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import env, facts
from helpers.chips import CHIPS, Chip, chip
from helpers.facts import Fact

ROOT = Path(__file__).resolve().parent.parent
GIB = 2**30
CONFIDENCES = {"two sources agree", "one source", "conflicting", "derived"}
NOTES = "third-party notes"
# Before any test imports JAX, in whatever process pytest gives it.
env.prepare()

needs_libtpu = pytest.mark.skipif(not env.has("libtpu"), reason="libtpu is missing")


def fact(name: str, key: str) -> Fact:
    return CHIPS[name].facts[key]


def test_the_chips_of_the_book_are_there():
    wanted = ["v1", "v2", "v3", "v4i", "v4", "v5e", "v5p", "v6e", "tpu7x"]
    assert list(CHIPS) == wanted


@pytest.mark.parametrize("key", CHIPS["v1"].facts)
@pytest.mark.parametrize("name", CHIPS)
def test_a_fact_has_sources_a_scope_and_a_degree_of_confidence(name, key):
    entry = fact(name, key)
    assert entry.sources and entry.scope
    assert getattr(CHIPS[name], key) == entry.value
    sure, _, rest = entry.confidence.partition(", ")
    if entry.value is None:
        assert sure in {"not published", "not applicable", "conflicting"}
    else:
        assert sure in CONFIDENCES
        hearsay = all(source.kind == NOTES for source in entry.sources)
        assert rest == (f"{NOTES} only" if hearsay else "")
    if sure == "two sources agree":
        assert len({source.key for source in entry.sources}) >= 2
    for source in entry.sources:
        assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", source.date), source
        assert source.text and source.kind


@pytest.mark.parametrize("name", CHIPS)
def test_a_conflict_has_a_source_and_a_reason_for_the_choice(name):
    for key, entry in CHIPS[name].facts.items():
        assert bool(entry.conflicts) == entry.confidence.startswith("conflicting"), key
        assert bool(entry.conflicts) == bool(entry.choice), key
        assert not entry.choice or entry.choice.endswith("."), key
        for other in entry.conflicts:
            assert other.sources and other.value not in (None, entry.value), key


@pytest.mark.parametrize("name", CHIPS)
def test_what_is_not_known_is_none_and_never_0(name):
    for key, entry in CHIPS[name].facts.items():
        assert entry.value is None or entry.value, key
        assert not isinstance(entry.value, int | float) or entry.value > 0, key


def test_values_are_in_base_units():
    v5e = chip("v5e")
    assert v5e.hbm_bytes == 16 * GIB and isinstance(v5e.hbm_bytes, int)
    assert v5e.vmem_bytes_per_tensorcore == 2**27
    assert v5e.smem_bytes_per_tensorcore == 2**20
    assert v5e.bf16_flops_per_s == 197e12
    assert v5e.hbm_bytes_per_s == 819e9
    assert v5e.clock_hz == 1.5e9
    assert fact("v5e", "hbm_bytes_per_s").conflicts[0].value == 859e9
    assert fact("v5e", "hbm_bytes_per_s").unit == "bytes/s"


@pytest.mark.parametrize("found", CHIPS.values(), ids=CHIPS)
def test_capacities_are_whole_units_and_hold_what_can_be_used(found):
    assert found.hbm_bytes % GIB == 0
    assert found.vmem_bytes_per_tensorcore % 2**20 == 0
    if found.hbm_usable_bytes is not None:
        share = found.per_device("hbm_bytes")
        assert 0.9 * share < found.hbm_usable_bytes < share


@pytest.mark.parametrize("found", CHIPS.values(), ids=CHIPS)
def test_a_pod_has_the_chips_of_its_shape(found):
    if found.pod_shape:
        product = 1
        for axis in found.pod_shape:
            product *= axis
        assert product == found.pod_chips
        assert found.ici_links == 2 * len(found.pod_shape)


# Hand-worked: cells of all matrix units, two FLOPs, the published clock.
@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("v1", 256**2 * 2 * 0.7e9),
        ("v2", 2 * 1 * 128**2 * 2 * 0.7e9),
        ("v3", 2 * 2 * 128**2 * 2 * 0.94e9),
        ("v4i", 4 * 128**2 * 2 * 1.05e9),
        ("v4", 2 * 4 * 128**2 * 2 * 1.05e9),
        ("v5e", 4 * 128**2 * 2 * 1.5e9),
        ("v5p", 2 * 4 * 128**2 * 2 * 1.75e9),
    ],
)
def test_published_clocks_explain_published_peaks(name, peak):
    found = chip(name)
    assert found.clock_peak_flops_per_s == pytest.approx(peak, rel=1e-12)
    published = found.bf16_flops_per_s or found.int8_ops_per_s
    assert published == pytest.approx(peak, rel=0.005)
    assert found.clock_bound_hz == pytest.approx(found.clock_hz, rel=0.005)


@pytest.mark.parametrize(("name", "bound_hz"), [("v6e", 3.502e9), ("tpu7x", 4.400e9)])
def test_a_clock_that_is_not_published_is_bounded_only(name, bound_hz):
    assert chip(name).clock_hz is None
    assert chip(name).clock_peak_flops_per_s is None
    assert chip(name).clock_bound_hz == pytest.approx(bound_hz, rel=1e-3)


# From the facts sheet: v2 66, v3 137, v4 229, v5e 241, v5p 166, v6e 560, TPU7x 313.
@pytest.mark.parametrize(
    ("name", "ridge"),
    [("v2", 66), ("v3", 137), ("v4", 229), ("v5e", 241), ("v5p", 166), ("v6e", 560)]
    + [("tpu7x", 313)],
)
def test_the_ridge_is_peak_over_bandwidth(name, ridge):
    assert round(chip(name).ridge_flops_per_byte()) == ridge


def test_the_ridge_of_v1_is_about_1350_multiply_accumulates_a_byte():
    # The paper (ISCA 2017, section 4) counts multiply-accumulates: half as many.
    assert chip("v1").ridge_flops_per_byte("int8") / 2 == pytest.approx(1353, abs=1)
    assert chip("v1").ridge_flops_per_byte() is None


def test_peaks_go_by_the_names_of_types():
    v6e = chip("v6e")
    assert v6e.peak_per_s("bfloat16") == v6e.peak_per_s() == v6e.bf16_flops_per_s
    assert v6e.peak_per_s("int8") == v6e.int8_ops_per_s
    assert v6e.peak_per_s("float8_e4m3fn") == v6e.fp8_flops_per_s
    with pytest.raises(ValueError, match="expected one of bf16, .*, got 'float32'"):
        v6e.peak_per_s("float32")


def test_a_device_has_its_part_of_the_chip():
    for name, devices in {"v2": 2, "v3": 2, "v4": 1, "v5p": 1, "tpu7x": 2}.items():
        found = chip(name)
        assert found.devices == devices
        peak = found.per_device("bf16_flops_per_s")
        assert peak * devices == found.bf16_flops_per_s
    assert chip("v1").per_device("hbm_bytes") is None
    assert chip("v2").per_device("int8_ops_per_s") is None
    with pytest.raises(ValueError, match="expected one of .*, got 'mxu_side'"):
        chip("v2").per_device("mxu_side")


def test_a_pod_adds_its_chips_up():
    pod = chip("v5p").pod()
    assert (pod.chips, pod.hosts, pod.tensorcores) == (8960, 2240, 17920)
    assert pod.bf16_flops_per_s == pytest.approx(4.11264e18)
    assert pod.hbm_bytes == 8960 * 96 * GIB
    few = chip("tpu7x").pod(5)
    assert (few.hosts, few.devices) == (2, 10)
    assert chip("v1").pod(1).devices is None
    with pytest.raises(ValueError, match="expected chips >= 1 of v1, got None"):
        chip("v1").pod()
    with pytest.raises(ValueError, match="expected chips >= 1 of v5e, got 0"):
        chip("v5e").pod(0)


def test_a_link_carries_both_directions_and_a_chip_all_links():
    # Google's page on v5e: 400 GB/s a chip over 4 ports, both directions.
    v5e = chip("v5e")
    assert v5e.ici_links * v5e.ici_bidirectional_bytes_per_s == 400e9
    assert chip("v1").ici_bidirectional_bytes_per_s is None


def test_vector_units_need_a_published_clock_and_count():
    # The Scaling Book's quiz: 8 * 128 * 4 * 2 * 1.75e9.
    assert chip("v5p").vpu_ops_per_s == pytest.approx(1.43e13, rel=0.005)
    assert chip("v6e").vpu_ops_per_s is None


@pytest.mark.parametrize(
    ("name", "key"),
    [("v5e", "v5e"), ("TPU v5 lite", "v5e"), ("TPU v5e", "v5e"), ("TPU v5", "v5p")]
    + [("TPU7x", "tpu7x"), ("TPU v4 lite", "v4i"), ("TPU v4", "v4")],
)
def test_a_chip_answers_to_what_jax_calls_its_devices(name, key):
    assert chip(name) is CHIPS[key]
    assert chip(CHIPS[key]) is CHIPS[key]


@pytest.mark.parametrize("name", ["v9", "", "TPU", "cpu", None])
def test_an_unknown_chip_is_refused_with_the_known_ones(name):
    message = "expected one of v1, v2, .*tpu7x or a JAX device_kind, got "
    with pytest.raises(ValueError, match=message + re.escape(repr(name))):
        chip(name)


def test_no_two_chips_share_a_name():
    names = [n for c in CHIPS.values() for n in (c.name, c.device_kind, *c.aliases)]
    known = [name for name in names if name]
    assert len(known) == len(set(known))


def test_the_table_cannot_be_changed_but_copied():
    v5e = chip("v5e")
    with pytest.raises(dataclasses.FrozenInstanceError):
        v5e.hbm_bytes = 1
    with pytest.raises(TypeError):
        CHIPS["v5e"] = v5e
    with pytest.raises(TypeError):
        v5e.facts["hbm_bytes"] = None
    assert pickle.loads(pickle.dumps(v5e)) == copy.deepcopy(v5e) == v5e
    assert dataclasses.asdict(v5e)["hbm_bytes"] == 16 * GIB
    assert dataclasses.replace(v5e, hbm_bytes=1).facts is v5e.facts


def test_a_row_without_a_column_is_refused(tmp_path, monkeypatch):
    table = """
[sources.A]
text = "A book"
date = "2026-01"
kind = "book"
[fields.size_bytes]
unit = "bytes"
stored = "KiB"
scope = "each"
[fields.speed]
unit = ""
scope = "each"
[things.one]
colour = "red"
speed = { value = 2, sources = ["A"], confidence = "one source" }
"""
    size = 'size_bytes = { sources = ["A"], confidence = "not published" }\n'
    monkeypatch.setattr(facts, "files", lambda package: tmp_path)
    (tmp_path / "things.toml").write_text(table)
    message = r"expected \['size_bytes'\] in things.one, got none"
    with pytest.raises(ValueError, match=message):
        facts.read_table("things")
    (tmp_path / "things.toml").write_text(table + size)
    row = facts.read_table("things")["one"]
    assert row.extra == {"colour": "red"}
    assert row.facts["size_bytes"].value is None
    assert row.facts["speed"].value == 2
    assert row.facts["speed"].sources[0].text == "A book"


# What JAX's own table must agree with, for a chip: the value, or a conflict of ours.
JAX_NAMES = {
    "hbm_bytes": "hbm_capacity_bytes",
    "hbm_bytes_per_s": "mem_bw_bytes_per_second",
    "bf16_flops_per_s": "bf16_ops_per_second",
    "int8_ops_per_s": "int8_ops_per_second",
    "fp8_flops_per_s": "fp8_ops_per_second",
}
PER_TENSORCORE = {
    "mxus_per_tensorcore": "num_mxus",
    "mxu_side": "mxu_column_size",
    "vmem_bytes_per_tensorcore": "vmem_capacity_bytes",
    "smem_bytes_per_tensorcore": "smem_capacity_bytes",
}


def jax_info(found: Chip):
    """JAX's record of a TensorCore; its place moved between the versions we use."""
    for place in ("jax._src.tpu_info", "jax._src.pallas.mosaic.tpu_info"):
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError:
            continue
        version = module.chip_version_from_device_kind(found.device_kind)
        return module._get_tpu_info_impl(version, 1)
    pytest.skip("this JAX has no table of chips")


@pytest.mark.parametrize("name", [n for n in CHIPS if n != "v1"])
def test_jax_agrees_or_its_number_is_recorded_as_a_conflict(name):
    found = chip(name)
    info = jax_info(found)
    for key, theirs in PER_TENSORCORE.items():
        assert getattr(found, key) == getattr(info, theirs), key
    for key, theirs in JAX_NAMES.items():
        number = found.tensorcores * getattr(info, theirs)
        entry = found.facts[key]
        if not number:  # JAX writes 0 for what it does not know
            continue
        ours = [entry.value]
        for other in entry.conflicts:
            if any(source.key == "JAX" for source in other.sources):
                ours.append(other.value)
        near = [n for n in ours if n and abs(number / n - 1) < 2e-3]
        assert near, (key, number, ours)


@needs_libtpu
@pytest.mark.parametrize("name", [n for n in CHIPS if n != "v1"])
def test_the_compiler_has_the_devices_and_the_memory(name):
    jax = pytest.importorskip("jax")
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    found = chip(name)
    shape = "2x2x1" if found.facts["ici_links"].value in (6, None) else "2x2"
    options = {"chip_config_name": "megacore"} if name == "v4" else {}
    topology = f"{found.topology_prefix}:{shape}"
    devices = topologies.get_topology_desc(
        platform="tpu", topology_name=topology, **options
    ).devices
    assert len(devices) == 4 * found.devices
    assert devices[0].device_kind == found.device_kind
    whole = SingleDeviceSharding(devices[0])
    big = jax.ShapeDtypeStruct((50 * GIB,), "float32", sharding=whole)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.jit(lambda x: x + 1).lower(big).compile()
    usable = re.search(r"available HBM \(([\d.]+)G\)", str(caught.value))
    # The message has two digits, and libtpu's versions differ in the last.
    assert float(usable[1]) == pytest.approx(found.hbm_usable_bytes / GIB, abs=0.011)


def test_chips_to_compile_for_are_chips_of_the_table():
    aot = pytest.importorskip("helpers.aot")
    for name, options in aot.CHIPS.items():
        prefix = options["topology_name"].partition(":")[0]
        assert prefix == chip(name).topology_prefix


NUMBER = r"(?<![\w.])\d[\d_,]*(?:\.\d+)?(?:e[+-]?\d+)?"
POWER = r"(?:\s*\*\s*10\s*\*\*\s*(?P<power>\d+))?"
UNIT = r"(?:\s?(?P<prefix>[GTP])(?:FLOPs?/s|OPs?/s|FLOPS|B/s|Bps))?"
WRITTEN = re.compile(f"(?P<number>{NUMBER}){POWER}{UNIT}", re.IGNORECASE)
PREFIXES = {"G": 1e9, "T": 1e12, "P": 1e15}


def characteristic() -> dict[float, str]:
    """Peaks and bandwidths of chips and of their devices: unlikely by chance."""
    keys = ("bf16_flops_per_s", "int8_ops_per_s", "fp8_flops_per_s", "hbm_bytes_per_s")
    pairs = [(each, key) for each in CHIPS.values() for key in keys]
    found = {
        each.per_device(key): f"{key} of half a {each.name}" for each, key in pairs
    }
    found |= {getattr(each, key): f"{key} of {each.name}" for each, key in pairs}
    return {value: what for value, what in found.items() if value}


def values_written(line: str) -> Iterator[float]:
    """The numbers on a line, however they are spelled, with their units taken in."""
    for match in WRITTEN.finditer(line):
        number = match["number"].replace("_", "").replace(",", "")
        value = float(number) * 10.0 ** int(match["power"] or 0)
        yield value * PREFIXES.get((match["prefix"] or "").upper(), 1)


def without_strings(source: str) -> str:
    """A module's source with its text blanked: examples in docstrings are no copies."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            (first, start), (last, end) = token.start, token.end
            for row in range(first, last + 1):
                text = lines[row - 1]
                left = start if row == first else 0
                right = end if row == last else len(text.rstrip("\n"))
                blank = " " * (right - left)
                lines[row - 1] = text[:left] + blank + text[right:]
    return "".join(lines)


def copies(root: Path) -> list[str]:
    """Where numbers of the table are written again: file, line and what it repeats."""
    table, found = characteristic(), []
    paths = [p for d in ("helpers", "book", "tools") for p in (root / d).rglob("*")]
    for path in sorted(p for p in paths if p.suffix in (".py", ".md")):
        text = path.read_text(encoding="utf-8")
        text = without_strings(text) if path.suffix == ".py" else text
        for number, line in enumerate(text.splitlines(), start=1):
            for value in values_written(line):
                same = [w for v, w in table.items() if abs(value / v - 1) < 1e-9]
                place = f"{path.relative_to(root).as_posix()}:{number}"
                found += [f"{place}: {value:g} is {what}" for what in same[:1]]
    return found


def test_each_number_of_the_table_has_one_home():
    assert copies(ROOT) == []


CODE = ["197e12", "1.97e14", "1.97E+14", "197_000_000_000_000", "197000000000000"]
CODE += ["197 * 10**12", "0.197e15", "819e9", "8.19e11", "1153.5e12", "2307e12"]
CODE += ["1638e9", "4614e12", "34e9"]
PROSE = ["197 TFLOP/s", "0.197 PFLOP/s", "197 TFLOPs/s", "819 GB/s", "819GB/s"]
PROSE += ["2,765 GB/s", "7.38 TB/s", "393 TOP/s"]


@pytest.mark.parametrize(
    ("name", "spelling"),
    [("helpers/part.py", each) for each in CODE]
    + [("book/part/page.md", each) for each in CODE + PROSE],
)
def test_a_second_home_is_named_by_file_and_line(tmp_path, name, spelling):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(f"x = 1\ny = [{spelling}]\n", encoding="utf-8")
    (found,) = copies(tmp_path)
    assert re.match(rf"{name}:2: [\d.e+]+ is \w+_per_s of (half a )?\w+$", found)


def test_what_is_no_copy_is_left_alone(tmp_path):
    (tmp_path / "helpers").mkdir()
    (tmp_path / "book").mkdir()
    source = (
        '"""Such as 197e12."""\nx = "819 GB/s"  # 819e9\ny = 197, 8190e9, 1.97e13\n'
    )
    (tmp_path / "helpers/part.py").write_text(source)
    (tmp_path / "book/page.md").write_text("v197e12, 197 GB, 819 steps, 16 GiB\n")
    assert copies(tmp_path) == []
