"""Collective operations and barriers between ranks, as the distributed rules see them."""

import re

from perf_timing.lint.code.flow import Step
from perf_timing.lint.code.scopes import callee_text, squeeze
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.measured.regions import Region

# Operations that end on every rank only after the slowest has begun them.
_COLLECTIVE = re.compile(
    r"(^|[._])(all_reduce|allreduce|all_gather\w*|allgather\w*|reduce_scatter\w*|all_to_all\w*"
    r"|alltoall\w*|psum|all_gather_into_tensor|broadcast)$",
    re.IGNORECASE,
)
_HOLDER = re.compile(
    r"(^|[._])(dist|distributed|comm|comms|pg|group|process_group|nccl|hvd|MPI|COMM_WORLD|deepspeed"
    r"|torchcomm|communicator|ctx)$"
)
_BARRIER = re.compile(
    r"(^|[._])(barrier|Barrier|wait_for_everyone|rendezvous|sync_all|monitored_barrier)$"
)


def is_collective(source: SourceFile, node: Node) -> bool:
    """Whether `node` calls a collective of a communication library."""
    if node.kind != "call":
        return False
    name = source.scopes.resolve(squeeze(callee_text(node)))
    if not _COLLECTIVE.search(name):
        return False
    holder = name.rpartition(".")[0]
    return bool(_HOLDER.search(holder)) if holder else False


def is_barrier(node: Node) -> bool:
    """Whether `node` makes the ranks wait for each other and does nothing else."""
    return node.kind == "call" and bool(_BARRIER.search(callee_text(node)))


def collective_steps(source: SourceFile, region: Region) -> list[Step]:
    """The collectives that a region times."""
    return [step for step in region.steps if is_collective(source, step.node)]


# Operations of other files that all ranks take part in, by their names.
_SPREAD = re.compile(
    r"(^|[._])(ring|zigzag|ulysses|stripe|(all_?)?to_?all|all_?gather|all_?reduce|reduce_?scatter"
    r"|usp|dist(ributed)?_attn|distributed_\w*attention|(tensor|sequence|context|expert|hybrid)"
    r"_?(model_?)?parallel|long_?context)(?=[._]|$)",
    re.IGNORECASE,
)
_STARTS_RANKS = re.compile(r"(^|[._])(init_process_group|init_distributed\w*|get_rank)$")


def spread_steps(source: SourceFile, region: Region) -> list[Step]:
    """Work of a region that all ranks do together, in a benchmark which starts them itself.

    It is a function that the file imports under a name that says so, or a callable that is handed
    in where the file hands on functions of such names.
    """
    calls = (callee_text(call) for call in source.scopes.calls)
    if source.language != "python" or not any(_STARTS_RANKS.search(name) for name in calls):
        return []
    spread = {name for name, full in source.scopes.imports.items() if _SPREAD.search(full)}
    if not spread:
        return []
    return [
        step
        for step in region.steps
        if step.node.kind == "call"
        and (callee_text(step.node) in spread or _hands_on(source, region, step, spread))
    ]


def _hands_on(source: SourceFile, region: Region, step: Step, spread: set[str]) -> bool:
    """Whether a step calls a parameter, and the file lists or passes functions of some names."""
    called = callee_text(step.node)
    if called not in region.scope.parameters:
        return False
    return any(
        node.kind == "name"
        and node.text in spread
        and node.parent is not None
        and node.parent.kind in ("list", "tuple", "args")
        for scope in source.scopes.all
        for node in scope.nodes
    )


def aligns(source: SourceFile) -> bool:
    """Whether the file makes its ranks wait for each other anywhere."""
    return any(is_barrier(call) or is_collective(source, call) for call in source.scopes.calls)
