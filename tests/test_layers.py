"""The shape of the library: what may import what, what is public, what is said."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

HELPERS = Path(__file__).resolve().parent.parent / "helpers"
# A module may import those of lower layers and, in its own, those before it.
LAYERS = (
    (
        *("units", "env", "errors", "facts", "chips", "costs", "vliw", "bundles"),
        *("shapes", "hlo_text", "hlo_module", "hlo_parser", "hlo", "hlo_loops"),
        *("hlo_flops", "hlo_traffic", "hlo_queries", "hlo_collectives"),
        *("hlo_schedule", "programs", "store"),
    ),
    ("tables", "check", "roofline", "collectives", "systolic", "plan"),
    ("topology", "lowering", "aot", "dumps", "timing", "tracing", "model", "train"),
    ("plots", "timelines", "diagrams", "slots", "widgets"),
    ("exercises",),
)
LIBRARIES = (
    set(),
    {"numpy"},
    {"numpy", "jax", "optax", "orbax"},
    {"numpy", "matplotlib"},
    {"numpy", "jax"},
)
# Inside functions alone: importing the module must not import JAX.
IMPORTS_WHEN_CALLED = {"env": {"jax"}}
MODULE_LINES = 230
PLACES = {
    name: (level, place)
    for level, names in enumerate(LAYERS)
    for place, name in enumerate(names)
}
NOWHERE = (len(LAYERS), 0)
SOURCES = sorted(path for path in HELPERS.rglob("*.py") if path.name != "__init__.py")
NAMES = [".".join(path.relative_to(HELPERS).with_suffix("").parts) for path in SOURCES]


def imports_of(tree: ast.AST) -> set[str]:
    """Dotted names of all the modules that a syntax tree imports, at any depth."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute in this library"
            found.add(node.module)
            if node.module == "helpers":
                found |= {f"helpers.{alias.name}" for alias in node.names}
    return found - {"helpers"}


def faults(name: str, source: str) -> list[str]:
    """What a module imports against the rules of its layer."""
    part = name.split(".")[0]
    if part not in PLACES:
        return [f"{part} is in no layer"]
    level, _ = PLACES[part]
    tree = ast.parse(source)
    wrong = []
    for module in sorted(imports_of(tree)):
        root, _, rest = module.partition(".")
        if root == "helpers":
            if PLACES.get(rest.split(".")[0], NOWHERE) >= PLACES[part]:
                wrong.append(f"{name} imports helpers.{rest}, which is not below it")
        elif root not in sys.stdlib_module_names:
            allowed = LIBRARIES[level] | IMPORTS_WHEN_CALLED.get(part, set())
            if root not in allowed:
                wrong.append(f"{name} imports {root}, which layer {level} may not")
    return wrong


def public_functions(module) -> list:
    """Public functions and methods that a module defines itself."""
    found = []
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) and value.__module__ == module.__name__:
            found += [m for key, m in vars(value).items() if not key.startswith("_")]
        found.append(value)
    return [inspect.unwrap(f) for f in found if inspect.isfunction(f)]


@pytest.mark.parametrize("path", SOURCES, ids=NAMES)
def test_imports_point_downward(path):
    name = NAMES[SOURCES.index(path)]
    assert faults(name, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("name", "source", "fault"),
    [
        ("units", "import helpers.aot", "units imports helpers.aot, which is not"),
        ("hlo", "from helpers import check", "hlo imports helpers.check, which"),
        ("roofline", "from helpers.plan import x", "which is not below it"),
        ("units", "def f():\n    import numpy", "units imports numpy, which layer 0"),
        ("check", "from jax import numpy", "check imports jax, which layer 1"),
        ("shapes", "import helpers.hlo", "shapes imports helpers.hlo, which is not"),
        ("hlo_loops", "import numpy", "hlo_loops imports numpy, which layer 0 may"),
        ("misc", "", "misc is in no layer"),
    ],
)
def test_imports_that_point_upward_are_found(name, source, fault):
    assert fault in faults(name, source)[0]


@pytest.mark.parametrize("name", NAMES)
def test_all_names_what_is_public(name):
    module = import_module(f"helpers.{name}")
    assert module.__all__ == sorted(set(module.__all__)), "sorted, without repeats"
    defined = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    }
    assert defined - set(module.__all__) == set(), "public but not in __all__"
    for key in module.__all__:
        assert hasattr(module, key), f"__all__ names {key}, which does not exist"


@pytest.mark.parametrize("name", NAMES)
def test_public_functions_are_documented(name):
    module = import_module(f"helpers.{name}")
    assert module.__doc__
    for function in public_functions(module):
        text, where = inspect.getdoc(function) or "", function.__qualname__
        assert text, f"{where} has no docstring"
        parameters = [p for p in inspect.signature(function).parameters if p != "self"]
        if parameters:
            assert "Args:" in text, f"{where} does not describe its arguments"
        for parameter in parameters:
            assert f"{parameter}:" in text, f"{where} does not describe {parameter}"
        returns = inspect.signature(function).return_annotation not in (None, "None")
        if parameters and returns:
            said = "Returns:" in text or "Yields:" in text
            assert said, f"{where} does not describe its result"


# A chapter's checks are not here: they are as long as its exercises need.
@pytest.mark.parametrize("path", sorted(HELPERS.glob("*.py")), ids=lambda p: p.stem)
def test_modules_can_be_read_at_a_sitting(path):
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line]
    assert len(lines) <= MODULE_LINES, f"{path.name}: {len(lines)} lines with text"


@pytest.mark.parametrize("module", LAYERS[0])
def test_layer_0_needs_the_standard_library_alone(module):
    script = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root != "helpers" and root not in sys.stdlib_module_names:
            raise ImportError(f"{{name}} is not in the standard library")
sys.meta_path.insert(0, Block())
import helpers.{module}
assert not {{"jax", "numpy"}} & set(sys.modules)
print("imported")
"""
    # -S and -E keep editable-install hooks and the caller's settings out of it.
    run = subprocess.run(
        [sys.executable, "-S", "-E", "-c", script],
        cwd=HELPERS.parent,
        capture_output=True,
        text=True,
    )
    assert run.stdout == "imported\n", run.stderr
