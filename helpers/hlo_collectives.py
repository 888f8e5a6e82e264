"""Finds what devices say to each other in a compiled module.

The compilers write one communication in several ways: as one instruction, as a start
and a done with other work between, wrapped in an asynchronous call, or (on a TPU) in
fusions that each move a piece while they compute. Here each is one ``Collective``.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from helpers.hlo_loops import executions
from helpers.hlo_module import Computation, Instruction, Module
from helpers.shapes import Array, Tuple

__all__ = ["Collective", "collectives"]

_COLLECTIVES = frozenset(
    "all-gather all-reduce all-to-all collective-broadcast collective-permute "
    "ragged-all-to-all reduce-scatter".split()
)
# The TPU compiler numbers the transfers that it cuts over several fusions.
_CHAIN = re.compile(r'chain_id="([^"]*)"')


@dataclass(frozen=True)
class Collective:
    """A communication between devices.

    Attributes:
        instruction: The instruction that starts it, a fusion where it is in one.
        opcode: What is communicated, such as ``all-gather``; ``reduce-scatter`` also
            where the TPU compiler fuses an ``all-reduce`` with a slice of its result.
        done: Name of the instruction that waits for it; None if it is synchronous.
        dtype: Type of the elements of its first operand.
        operand_bytes: What a device puts in, in bytes.
        result_bytes: What a device gets, in bytes.
        groups: The devices that talk to each other; all of them if empty.
        group_size: How many they are.
        runs: How often it runs.
        algorithm: What the TPU compiler chose, if it says so.
    """

    instruction: Instruction
    opcode: str
    done: str | None
    dtype: str
    operand_bytes: int
    result_bytes: int
    groups: tuple[tuple[int, ...], ...]
    group_size: int
    runs: int
    algorithm: str | None

    @property
    def is_async(self) -> bool:
        """Whether other instructions may run before it is done."""
        return self.done is not None


def _ring(pairs: tuple[tuple[int, int], ...]) -> int:
    """How many devices the longest chain of senders and receivers has."""
    following, longest = dict(pairs), 0
    seen: set[int] = set()
    starts = [s for s in following if s not in set(following.values())]
    for start in [*starts, *following]:
        device, length = start, 0
        while device not in seen:
            seen.add(device)
            length += 1
            device = following.get(device, device)
        longest = max(longest, length)
    return longest


def _received(found: Instruction) -> Array | Tuple:
    """The type of what a collective gives."""
    has_parts = isinstance(found.result, Tuple) and len(found.result.parts) > 1
    if found.opcode.endswith("-start") and found.opcode != "all-reduce-start":
        return found.result.parts[1] if has_parts else found.result
    return found.result


def _algorithm(instruction: Instruction) -> str | None:
    """What the TPU compiler chose for a collective, if it says so."""
    config = instruction.backend_config
    config = config if isinstance(config, dict) else {}
    chosen = config.get("collective_algorithm_config")
    if not isinstance(chosen, dict):
        return None
    return chosen.get("strategy") or chosen.get("emitter")


def _collective(
    module: Module,
    where: Computation,
    found: Instruction,
    caller: Instruction | None,
    runs: int,
) -> Collective:
    opcode, received = found.opcode.removesuffix("-start"), _received(found)
    if opcode == "all-reduce" and caller and where.root.opcode == "dynamic-slice":
        opcode, received = "reduce-scatter", where.root.result
    sent = [leaf for operand in where.operands(found) for leaf in operand.result.leaves]
    algorithm = _algorithm(found) or (caller and _algorithm(caller)) or None
    groups = found.groups
    size = max(map(len, groups), default=module.device_count)
    return Collective(
        instruction=caller or found,
        opcode=opcode,
        done=None,
        dtype=sent[0].dtype if sent else "",
        operand_bytes=sum(leaf.size_bytes for leaf in sent),
        result_bytes=received.size_bytes,
        groups=groups,
        group_size=_ring(found.pairs) if found.pairs else size,
        runs=runs,
        algorithm=algorithm,
    )


def _done(where: Computation, start: Instruction) -> str | None:
    """Name of the instruction that waits for what ``start`` starts, if any does."""
    names = {start.name}
    for found in where.instructions:
        if names & set(found.operands):
            if found.opcode.endswith("-done"):
                return found.name
            if found.opcode.endswith("-update"):
                names.add(found.name)
    return None


def _ends(where: Computation, word: str) -> bool:
    target = where.root.attributes.get("custom_call_target", "")
    return target.strip('"') == f"AsyncCollective{word}"


def collectives(module: Module, if_unknown: int | None = None) -> list[Collective]:
    """Lists the communications of a program.

    Args:
        module: The module.
        if_unknown: Trips to assume of a loop whose number of trips the text does not
            settle.

    Returns:
        The communications in the order in which they start, those of inner
        computations first; each once, however many instructions it takes.

    Raises:
        ValueError: If a loop's trips are unknown and ``if_unknown`` is not given, or
            groups of devices cannot be read.
    """
    runs = executions(module, if_unknown)
    callers: dict[str, tuple[Computation, Instruction]] = {}
    listed: list[Collective] = []
    chains: dict[str, int] = {}
    dones: dict[str, str] = {}
    for where in module.computations.values():
        for found in where.instructions:
            for name in found.called:
                callers.setdefault(name, (where, found))
    for where in module.computations.values():
        around, caller = callers.get(where.name, (where, None))
        for found in where.instructions:
            if found.opcode.removesuffix("-start") not in _COLLECTIVES:
                continue
            one = _collective(module, where, found, caller, runs[where.name])
            chain = _CHAIN.search(found.attributes.get("frontend_attributes", ""))
            if caller and chain:
                if _ends(where, "Done"):
                    dones[chain[1]] = caller.name
                if not _ends(where, "Start"):
                    continue
                chains[chain[1]] = len(listed)
            elif found.opcode.endswith("-start"):
                one = dataclasses.replace(one, done=_done(where, found))
            elif caller and caller.opcode == "async-start":
                one = dataclasses.replace(one, done=_done(around, caller))
            listed.append(one)
    for chain_id, position in chains.items():
        done = dones.get(chain_id)
        listed[position] = dataclasses.replace(listed[position], done=done)
    return sorted(listed, key=lambda one: one.instruction.line)
