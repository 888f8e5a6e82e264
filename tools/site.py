"""Builds the site and serves it: ``python tools/site.py build`` or ``serve``."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import slim

ROOT = Path(__file__).resolve().parent.parent
# Everything that the site is made of.
INPUTS = (
    "_config.yml",
    "_ext",
    "_toc.yml",
    "book",
    "notebooks",
    "requirements.txt",
    "tools/addresses.py",
    "tools/formulas.py",
    "tools/site.py",
    "tools/slim.py",
    "tools/styles.py",
)
READING = re.compile(r"(reading sources|writing output)\.\.\. *\[ *(\d+)%\]")
COLOUR = re.compile(r"\x1b\[[\d;]*m")


class BuildError(Exception):
    """The site could not be built; the message says why."""


def _files(root: Path, names: tuple[str, ...]) -> Iterator[Path]:
    for name in names:
        path = root / name
        inside = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (p for p in inside if p.is_file() and "__pycache__" not in p.parts)


def digest(root: Path, names: tuple[str, ...]) -> str:
    """Returns a digest of files, of the Python in use and of the ``BOOK_*`` variables.

    Args:
        root: The repository.
        names: Files and folders below it; missing ones count as empty.
    """
    result = hashlib.sha256(sys.version.encode())
    for name, value in sorted(os.environ.items()):
        if name.startswith("BOOK_"):
            result.update(f"{name}={value}\0".encode())
    for path in _files(root, names):
        result.update(f"{path.relative_to(root).as_posix()}\0".encode())
        result.update(hashlib.sha256(path.read_bytes()).digest())
    return result.hexdigest()


def last_commit(root: Path) -> str:
    """Returns the date of the last commit to the book's text, which pages show."""
    command = ["git", "-C", str(root), "log", "-1", "--format=%ct", "--", "book"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


def run(command: list[str], root: Path, log: Path, say: str) -> str:
    """Runs a step, showing one line of progress and keeping its output in a log.

    Args:
        command: The command and its arguments.
        root: The folder to run it in.
        log: The file that receives what it prints.
        say: What the step does, for the reader.

    Returns:
        What it printed, without colours.

    Raises:
        BuildError: If it fails, with the lines of its output that say why.
    """
    start, lines = time.monotonic(), []
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    with process, log.open("w", encoding="utf-8") as file:
        for line in process.stdout:
            lines.append(COLOUR.sub("", line))
            file.write(lines[-1])
            step = READING.search(lines[-1])
            if step and sys.stdout.isatty():
                print(f"\r{say}: {step[1]} {step[2]} %  ", end="", flush=True)
    if process.returncode:
        telling = [line for line in lines if re.search("(WARNING|ERROR|Error):", line)]
        shown = "".join(telling[:40] or lines[-20:]).rstrip()
        raise BuildError(f"{say} failed; the whole log is {log}\n{shown}")
    clear = "\r\x1b[K" if sys.stdout.isatty() else ""
    print(f"{clear}{say}: {time.monotonic() - start:.1f} s", flush=True)
    return "".join(lines)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Waits until no other process builds into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(root: Path) -> Path:
    """Builds the site if an input changed since the last build.

    Args:
        root: The repository.

    Returns:
        The folder of the site.

    Raises:
        BuildError: If a page has a warning or an error, or a step fails.
    """
    with alone(root / "_build"):
        return _build(root)


def _build(root: Path) -> Path:
    out, stage = root / "_build", root / "_build/stage"
    site, record = out / "html", out / "site.json"
    inputs = f"{digest(root, INPUTS)} {last_commit(root)}"
    last = json.loads(record.read_text("utf-8")) if record.exists() else {}
    if last.get("inputs") == inputs and (site / "index.html").exists():
        print("the site is up to date")
        return site
    # From nothing, which takes seconds: a second run of Sphinx repeats no warning, sees
    # no new output of a notebook, and lists in the sitemap only the pages it wrote.
    shutil.rmtree(stage, ignore_errors=True)
    record.unlink(missing_ok=True)

    seed = [sys.executable, str(root / "tools/notebooks.py"), "seed"]
    run(seed, root, out / "seed.log", "reusing the notebooks' outputs")
    options = [f"--config={root / '_config.yml'}", f"--toc={root / '_toc.yml'}"]
    # jupyter_book has no __main__, and a console script may not be on the PATH.
    book = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    book += ["build", str(root / "book"), *options, f"--path-output={stage}"]
    book += ["-W", "-n", "--keep-going"]
    text = run(book, root, out / "book.log", "building the pages")
    slim.slim(stage / "_build/html", site)
    executed = re.findall(r"(\S+): Executing notebook", text)
    if executed:
        print(f"executed {len(executed)} chapters that notebooks/ does not cover")
    report = {"inputs": inputs, "executed": executed}
    record.write_text(json.dumps(report, indent=1), encoding="utf-8")
    return site


class Handler(SimpleHTTPRequestHandler):
    """Serves the site as a host of static files does, with the book's own 404 page."""

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        page = Path(self.directory, "404.html")
        if code != 404 or not page.exists():
            super().send_error(code, message, explain)
            return
        content = page.read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Stays silent: a line per request hides the address to open."""


def server(site: Path, port: int = 0) -> ThreadingHTTPServer:
    """Returns a server of the site on this machine only; 0 takes a free port."""
    return ThreadingHTTPServer(
        ("127.0.0.1", port), partial(Handler, directory=str(site))
    )


def serve(site: Path, port: int) -> None:
    """Serves the site until interrupted.

    Raises:
        BuildError: If the port is taken.
    """
    try:
        web = server(site, port)
    except OSError as error:
        raise BuildError(
            f"port {port} is not available ({error.strerror}): choose another, or none "
            "to get a free one"
        ) from None
    with web:
        print(f"http://127.0.0.1:{web.server_port}/  (Ctrl+C stops)", flush=True)
        try:
            web.serve_forever()
        except KeyboardInterrupt:
            print()


def main() -> int:
    """Runs the command line and returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, does in (("build", "build the site"), ("serve", "build and serve it")):
        command = commands.add_parser(name, help=does)
        command.add_argument("--root", type=Path, default=ROOT, help="the repository")
        if name == "serve":
            command.add_argument(
                "--port", type=int, default=0, help="default: a free one"
            )
    arguments = parser.parse_args()
    try:
        site = build(arguments.root.resolve())
        if arguments.command == "serve":
            serve(site, arguments.port)
        else:
            print(f"open {site / 'index.html'}, or run `make serve`")
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
