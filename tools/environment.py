"""Makes Python environments that hold exactly the pinned packages.

``python tools/environment.py`` makes the book's own ``.venv``; the lanes make theirs
through the same functions. Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATE = "book-state.json"
# pip spends its time on one request after another: measured on two cores, three
# installers side by side take 24 s for what one does in 42 s.
INSTALLERS = 3
_SEEN = ("Collecting ", "Processing ", "Requirement already ", "Ignoring ")
_OFFLINE = re.compile(
    r"NewConnectionError|NameResolutionError|name resolution|Network is unreachable"
    r"|ConnectTimeout|ConnectionError|ProxyError|Max retries exceeded"
)


class SetupError(Exception):
    """A reason, in one sentence, why an environment cannot be made."""


def python_of(folder: Path) -> Path:
    """The interpreter of the environment in ``folder``."""
    return folder / "bin" / "python"


def pins(requirements: Path) -> list[str]:
    """The requirement lines of a pins file, without comments and blank lines."""
    lines = requirements.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def fingerprint(*files: Path) -> str:
    """A digest of files, by content."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def place(folder: Path) -> str:
    """What an environment cannot outlive: its folder and the Python it came from."""
    return f"{folder} {sys.base_prefix} {platform.python_version()}"


def read_state(folder: Path) -> dict[str, str]:
    """What is known about the environment in ``folder``; empty when nothing is."""
    try:
        return json.loads((folder / STATE).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def write_state(folder: Path, packages: str) -> None:
    """Records the digest of the packages that ``folder`` holds.

    Args:
        folder: The environment.
        packages: The digest, or ``""`` while an installation is under way.
    """
    state = {"place": place(folder), "packages": packages}
    (folder / STATE).write_text(json.dumps(state), encoding="utf-8")


def create(folder: Path) -> None:
    """Makes an empty environment with the running Python, replacing an old one."""
    print(f"Making {folder.name} with Python {platform.python_version()} …", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_state(folder, "")
    venv.create(folder, symlinks=True, with_pip=True)


def prepare(folder: Path, packages: str) -> bool:
    """Brings ``folder`` to where packages can be installed into it.

    An environment of another Python or folder, and one whose installation was cut
    off, is made anew. One that is whole is kept, with whatever its owner added
    (PyTorch, say).

    Args:
        folder: The environment.
        packages: The digest of the packages wanted.

    Returns:
        Whether anything has to be installed.
    """
    state = read_state(folder)
    same_place = state.get("place") == place(folder) and python_of(folder).exists()
    if same_place and state["packages"] == packages:
        return False
    if not (same_place and state["packages"]):
        create(folder)
    write_state(folder, "")
    return True


def _fail(log: Path, doing: str) -> None:
    text = log.read_text(encoding="utf-8", errors="replace")
    if _OFFLINE.search(text):
        reason = "the package index could not be reached (is there a network?)"
    else:
        errors = re.findall(r"^ERROR: (.+)$", text, flags=re.MULTILINE)
        reason = errors[-1] if errors else "pip failed"
    raise SetupError(f"{doing} stopped: {reason}; the full log is {log}.")


def pip(folder: Path, *arguments: str, doing: str) -> None:
    """Runs the environment's pip, quietly.

    Args:
        folder: The environment.
        *arguments: What follows ``pip`` on the command line.
        doing: What an error message calls this step.

    Raises:
        SetupError: If pip fails.
    """
    log = folder / "setup.log"
    command = [python_of(folder), "-m", "pip", *arguments]
    with log.open("w", encoding="utf-8") as stream:
        done = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT)
    if done.returncode:
        _fail(log, doing)


class _Progress:
    """Counts the packages that pip has found, on one line, for several readers."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.found = 0
        self.lock = threading.Lock()
        self.started = time.monotonic()

    def follow(self, process: subprocess.Popen[str], log: Path) -> None:
        with process.stdout, log.open("w", encoding="utf-8") as stream:
            for line in process.stdout:
                stream.write(line)
                if line.startswith(_SEEN):
                    self.step()

    def step(self) -> None:
        with self.lock:
            self.found += 1
            last = self.found == self.total
            if sys.stdout.isatty() or last or self.found % 32 == 0:
                self.show("\n" if last or not sys.stdout.isatty() else "")

    def show(self, end: str) -> None:
        seconds = time.monotonic() - self.started
        what = "all found, unpacking" if self.found == self.total else "found"
        start = "\r" if sys.stdout.isatty() else ""
        print(
            f"{start}  {self.found} of {self.total} packages {what} ({seconds:.0f} s)",
            end=end,
            flush=True,
        )


def install(folder: Path, packages: Sequence[str]) -> None:
    """Installs exactly ``packages`` and nothing else, several at a time.

    Args:
        folder: The environment.
        packages: Pins as in ``requirements.txt``, closed under dependency.

    Raises:
        SetupError: If pip fails or the packages do not fit together.
    """
    print(f"Installing {len(packages)} packages …", flush=True)
    progress = _Progress(len(packages))
    with tempfile.TemporaryDirectory() as scratch:
        jobs = []
        for index in range(INSTALLERS):
            part = Path(scratch, f"{index}.txt")
            part.write_text("\n".join(packages[index::INSTALLERS]), encoding="utf-8")
            jobs.append(_start_install(folder, part, progress, index))
        try:
            failed = [log for process, log, reader in jobs if _wait(process, reader)]
        finally:
            for process, *_ in jobs:
                process.kill()
    for log in failed:
        _fail(log, "Installing the packages")
    pip(folder, "check", doing="Checking that the packages fit together")


def _start_install(
    folder: Path, part: Path, progress: _Progress, index: int
) -> tuple[subprocess.Popen[str], Path, threading.Thread]:
    # Byte code is left for the first import: compiling all of it here costs more
    # than a build that imports a third of it ever gets back.
    options = ["--no-deps", "--no-compile", "--retries", "2", "--progress-bar", "off"]
    process = subprocess.Popen(
        [python_of(folder), "-m", "pip", "install", *options, "-r", part],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    log = folder / f"setup-{index}.log"
    reader = threading.Thread(target=progress.follow, args=(process, log))
    reader.start()
    return process, log, reader


def _wait(process: subprocess.Popen[str], reader: threading.Thread) -> int:
    reader.join()
    return process.wait()


def fill(folder: Path, packages: list[str]) -> None:
    """Installs pins into an environment that `prepare` has made ready.

    Args:
        folder: The environment.
        packages: Pins as in ``requirements.txt``, closed under dependency.

    Raises:
        SetupError: If the packages cannot be installed.
    """
    # The pip that comes with an older Python takes twice as long, so it goes first.
    newer_pip = [line for line in packages if line.startswith("pip==")]
    if newer_pip:
        pip(folder, "install", "--retries", "2", *newer_pip, doing="Updating pip")
    install(folder, [line for line in packages if line not in newer_pip])


def make_book_environment(root: Path) -> None:
    """Makes or refreshes ``.venv`` of the checkout at ``root``.

    Args:
        root: The checkout.

    Raises:
        SetupError: If the packages cannot be installed.
    """
    folder = root / ".venv"
    requirements = root / "requirements.txt"
    packages = fingerprint(requirements, root / "pyproject.toml")
    if not prepare(folder, packages):
        return
    fill(folder, pins(requirements))
    editable = ["--no-deps", "--no-build-isolation", "--no-index", "--editable"]
    pip(folder, "install", *editable, str(root), doing="Installing the book's helpers")
    write_state(folder, packages)


def make_lane_environment(folder: Path, requirements: Path) -> None:
    """Makes an environment of pins alone, without the book, with the running Python.

    Args:
        folder: Where to make it.
        requirements: The file of pins.

    Raises:
        SetupError: If the packages cannot be installed.
    """
    packages = fingerprint(requirements)
    if prepare(folder, packages):
        fill(folder, pins(requirements))
        write_state(folder, packages)


def main(arguments: list[str]) -> None:
    """Makes ``.venv``, or with ``FOLDER PINS`` an environment for a lane."""
    try:
        if arguments:
            folder, requirements = (Path(each).resolve() for each in arguments)
            make_lane_environment(folder, requirements)
        else:
            make_book_environment(ROOT)
    except SetupError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Set-up was interrupted; the next run starts it afresh.")


if __name__ == "__main__":
    main(sys.argv[1:])
