"""Set-up: which Python it takes, when it works again, and how it says it failed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import environment
import pytest

ROOT = Path(__file__).resolve().parent.parent
UTILITIES = ("head", "ls", "printf", "sed", "sh", "tr", "dirname")


def script(path: Path, body: str) -> Path:
    """Writes a shell script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def fake_python(path: Path, version: str, has_venv: bool = True) -> Path:
    """Something that answers `find_python.sh` as a Python of that version would."""
    return script(path, f"echo '{version} {path}'; exit {0 if has_venv else 1}")


def wrapped_python(folder: Path) -> None:
    """Gives an environment's folder a ``python`` that runs this one."""
    script(folder / "bin" / "python", f'exec "{sys.executable}" "$@"')


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of programs in which no Python is, to stand for the whole PATH."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in UTILITIES:
        (programs / name).symlink_to(shutil.which(name))
    return programs


def find(machine: Path, *versions: str, **variables: str) -> tuple[str, str]:
    """Runs `find_python.sh`; gives the path it prints and the sentence it complains."""
    done = subprocess.run(
        ["sh", ROOT / "tools/find_python.sh", *versions],
        env={"PATH": str(machine), "HOME": str(machine.parent), **variables},
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) == (done.stderr == "")
    return done.stdout.strip(), done.stderr.strip()


def test_find_python_takes_the_newest(machine):
    fake_python(machine / "python3.11", "3.11")
    newest = fake_python(machine / "python3.13", "3.13")
    fake_python(machine / "python3", "3.12")
    assert find(machine) == (str(newest), "")


def test_find_python_looks_under_pyenv_behind_a_shim_that_fails(machine):
    script(machine / "python3.13", "echo 'command not found' >&2; exit 127")
    versions = machine.parent / ".pyenv" / "versions"
    hidden = fake_python(versions / "3.13.2" / "bin" / "python", "3.13")
    assert find(machine) == (str(hidden), "")


def test_find_python_takes_a_plain_python3_of_a_suitable_version(machine):
    only = fake_python(machine / "python3", "3.12")
    assert find(machine) == (str(only), "")


def test_find_python_keeps_to_the_version_asked_for(machine):
    fake_python(machine / "python3.14", "3.14")
    wanted = fake_python(machine / "python3.13", "3.13")
    assert find(machine, "3.13") == (str(wanted), "")
    assert find(machine, "3.12")[1] == (
        "No Python 3.12 was found on the PATH or under pyenv."
    )


def test_find_python_says_that_there_is_none(machine):
    fake_python(machine / "python3", "3.9")
    assert find(machine)[1] == (
        "No Python from 3.11 to 3.14 was found on the PATH or under pyenv; "
        "install one or name it with PYTHON=/path/to/python."
    )


def test_find_python_says_that_venv_is_missing(machine):
    bare = fake_python(machine / "python3.12", "3.12", has_venv=False)
    assert find(machine)[1] == (
        f"{bare} has no venv module; on Debian or Ubuntu install it with: "
        "apt install python3-venv."
    )


def test_find_python_prefers_an_older_python_that_has_venv(machine):
    fake_python(machine / "python3.13", "3.13", has_venv=False)
    usable = fake_python(machine / "python3.12", "3.12")
    assert find(machine) == (str(usable), "")


@pytest.mark.parametrize(
    ("version", "has_venv", "complaint"),
    [
        ("3.9", True, "is Python 3.9, but one of 3.14 3.13 3.12 3.11 is needed."),
        ("3.12", False, "has no venv module; on Debian or Ubuntu install it with: "),
    ],
)
def test_find_python_refuses_an_unsuitable_choice(
    machine, version, has_venv, complaint
):
    fake_python(machine / "python3.13", "3.13")
    chosen = fake_python(machine / "mine", version, has_venv)
    found, error = find(machine, PYTHON=str(chosen))
    assert found == ""
    assert error.startswith(f"PYTHON={chosen} {complaint}")


def test_find_python_takes_the_choice_over_a_newer_one(machine):
    fake_python(machine / "python3.13", "3.13")
    chosen = fake_python(machine / "mine", "3.11")
    assert find(machine, PYTHON=str(chosen)) == (str(chosen), "")


def test_find_python_refuses_what_cannot_be_run(machine):
    missing = machine / "missing"
    assert find(machine, PYTHON=str(missing))[1] == (
        f"PYTHON={missing} is not a program that can be run."
    )
    assert find(machine, PYTHON="ls")[1] == (
        "PYTHON=ls does not start as a Python interpreter."
    )


@pytest.fixture
def created(monkeypatch) -> list[Path]:
    """Where environments were made, with a Python but without the slow pip."""
    folders = []

    def create(folder: Path, **_: object) -> None:
        folders.append(folder)
        wrapped_python(folder)

    monkeypatch.setattr(environment.venv, "create", create)
    return folders


@pytest.fixture
def complete(tmp_path, created) -> Path:
    """An environment that holds the packages of digest ``old``."""
    folder = tmp_path / ".venv"
    assert environment.prepare(folder, "old")
    environment.write_state(folder, "old")
    created.clear()
    return folder


def test_prepare_leaves_a_complete_environment_alone(complete, created):
    assert not environment.prepare(complete, "old")
    assert created == []


def test_prepare_keeps_what_the_owner_added_when_pins_change(complete, created):
    assert environment.prepare(complete, "new")
    assert created == []


def test_prepare_starts_afresh_after_an_interrupted_installation(complete, created):
    assert environment.prepare(complete, "new")
    assert environment.prepare(complete, "new")
    assert created == [complete]


def test_prepare_starts_afresh_when_the_folder_was_moved(complete, created):
    moved = complete.rename(complete.with_name(".venv-moved"))
    assert environment.prepare(moved, "old")
    assert created == [moved]


def test_prepare_starts_afresh_with_another_python(complete, created, monkeypatch):
    monkeypatch.setattr(environment.platform, "python_version", lambda: "3.99.0")
    assert environment.prepare(complete, "old")
    assert created == [complete]


def test_prepare_starts_afresh_where_nothing_is_known(tmp_path, created):
    (tmp_path / ".venv" / "leftover").mkdir(parents=True)
    assert environment.prepare(tmp_path / ".venv", "new")
    assert created == [tmp_path / ".venv"]
    assert not (tmp_path / ".venv" / "leftover").exists()


def copy_of_set_up(root: Path) -> Path:
    """Puts what set-up reads into a folder, with an environment made by this Python."""
    (root / "tools").mkdir()
    for name in ("setup.sh", "find_python.sh", "environment.py"):
        shutil.copy(ROOT / "tools" / name, root / "tools")
    shutil.copy(ROOT / "requirements.txt", root)
    shutil.copy(ROOT / "pyproject.toml", root)
    wrapped_python(root / ".venv")
    return root / ".venv"


def test_set_up_is_silent_and_quick_when_nothing_changed(tmp_path):
    folder = copy_of_set_up(tmp_path)
    pins = (tmp_path / "requirements.txt", tmp_path / "pyproject.toml")
    environment.write_state(folder, environment.fingerprint(*pins))
    start = time.monotonic()
    done = subprocess.run(
        ["sh", tmp_path / "tools/setup.sh"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - start < 5


def test_set_up_says_that_the_network_is_missing(tmp_path):
    folder = copy_of_set_up(tmp_path)
    environment.write_state(folder, "packages of another day")
    # Nothing listens on port 9, so a connection is refused at once.
    offline = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_NO_CACHE_DIR": "1"}
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    (tmp_path / "requirements.txt").write_text("no-such-package==1.0\n")
    done = subprocess.run(
        ["sh", tmp_path / "tools/setup.sh"],
        capture_output=True,
        text=True,
        env={**kept, **offline, "PIP_CONFIG_FILE": os.devnull},
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "Installing the packages stopped: the package index could not be reached "
        "(is there a network?); the full log is "
    )
    assert Path(done.stderr.split()[-1].rstrip(".")).exists()
    assert environment.read_state(folder)["packages"] == ""


def test_a_failure_is_told_in_pips_own_last_words(tmp_path):
    script(tmp_path / "bin" / "python", "echo 'ERROR: No such release'; exit 1")
    with pytest.raises(environment.SetupError, match="Trying stopped: No such release"):
        environment.pip(tmp_path, "install", "x", doing="Trying")


def test_install_hands_every_package_to_one_installer(tmp_path, capsys):
    seen = tmp_path / "seen"
    script(
        tmp_path / "bin" / "python",
        'for part; do :; done; [ "$part" = check ] && exit 0; '
        f'cat "$part" > {seen}-$$; sed "s/^/Collecting /" "$part"',
    )
    packages = [f"package-{number}==1" for number in range(7)]
    environment.install(tmp_path, packages)
    parts = [part.read_text().split() for part in tmp_path.glob("seen-*")]
    assert len(parts) == environment.INSTALLERS
    assert sorted(sum(parts, [])) == packages
    assert "7 of 7 packages" in capsys.readouterr().out


def test_install_fails_when_one_installer_fails(tmp_path):
    script(
        tmp_path / "bin" / "python",
        'for part; do :; done; grep -q bad "$part" || exit 0; '
        "echo 'ERROR: bad is bad'; exit 1",
    )
    with pytest.raises(environment.SetupError, match="bad is bad"):
        environment.install(tmp_path, ["one==1", "bad==1", "two==1"])


def test_pins_are_exact():
    pinned = environment.pins(ROOT / "requirements.txt")
    inexact = [
        line for line in pinned if not re.match(r"[\w.-]+==[\w.]+(; .+)?$", line)
    ]
    assert not inexact


def test_pins_have_one_version_for_each_wish():
    pinned = environment.pins(ROOT / "requirements.txt")
    versions = dict(line.replace("_", "-").split("==", 1) for line in pinned)
    assert len(versions) == len(pinned)
    for wish in environment.pins(ROOT / "requirements.in"):
        name, _, version = wish.replace("_", "-").partition("==")
        assert name in versions
        assert version in ("", versions[name])
