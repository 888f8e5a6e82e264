"""Executes notebooks, several at a time, and reports what each one did."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field

from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode


class ThisPython(AsyncKernelManager):
    """Starts kernels of the running Python, whatever kernels are registered."""

    @property
    def kernel_spec(self) -> KernelSpec:
        """The running Python's kernel."""
        return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict())


@dataclass(frozen=True)
class Outcome:
    """What became of one notebook.

    Attributes:
        name: The notebook's.
        seconds: Wall time, the start of the kernel included.
        error: What failed, or nothing.
    """

    name: str
    seconds: float
    error: str = ""


@dataclass
class Executor:
    """Runs notebooks in kernels of the running Python.

    Attributes:
        timeout: How long a cell may take, in seconds.
        after_cell: Called after each code cell.
    """

    timeout: int
    after_cell: Callable[[], None]
    _clients: list[NotebookClient] = field(default_factory=list)

    def run(self, notebooks: dict[str, NotebookNode]) -> Iterator[Outcome]:
        """Executes notebooks in place, as many at a time as there are cores.

        Args:
            notebooks: By name.

        Yields:
            An outcome for each, as it becomes known.
        """
        pool = ThreadPoolExecutor(max_workers=os.cpu_count())
        waiting = [pool.submit(self._one, *item) for item in notebooks.items()]
        try:
            for future in as_completed(waiting):
                yield future.result()
        finally:
            # Leaving early, as on an interrupt, must not leave kernels behind.
            pool.shutdown(wait=False, cancel_futures=True)
            for client in self._clients:
                self._kill(client)
            pool.shutdown(wait=True)

    def _one(self, name: str, notebook: NotebookNode) -> Outcome:
        begin = time.monotonic()
        current = [""]

        def remember(cell: NotebookNode, **_: object) -> None:
            current[0] = cell.source.split("\n")[0]

        client = NotebookClient(
            notebook,
            timeout=self.timeout,
            kernel_manager_class=ThisPython,
            # A kernel warns that other users of the machine could listen to it.
            extra_arguments=["--log-level=ERROR"],
            record_timing=False,
            coalesce_streams=True,
            on_cell_start=remember,
            on_cell_executed=lambda **_: self.after_cell(),
        )
        self._clients.append(client)
        error = ""
        with tempfile.TemporaryDirectory() as folder:
            client.resources = {"metadata": {"path": folder}}
            try:
                client.execute()
            except CellExecutionError as failure:
                error = f"{failure.ename}: {failure.evalue}"
            except CellTimeoutError:
                error = f"it took longer than {self.timeout} s"
            except DeadKernelError:
                error = "the kernel died"
        if error:
            error = f"the cell {current[0]!r} failed: {error}"
        return Outcome(name, time.monotonic() - begin, error)

    def _kill(self, client: NotebookClient) -> None:
        provisioner = getattr(client.km, "provisioner", None)
        if provisioner is not None and provisioner.pid:
            with suppress(ProcessLookupError):
                os.kill(provisioner.pid, signal.SIGKILL)
