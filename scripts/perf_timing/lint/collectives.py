"""Collective operations and barriers between ranks, as the distributed rules see them."""

import re

from perf_timing.lint.engine import SourceFile
from perf_timing.lint.facts import Node
from perf_timing.lint.flow import Step
from perf_timing.lint.regions import Region
from perf_timing.lint.scopes import callee_text, squeeze

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
