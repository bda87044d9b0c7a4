"""CPU cores and free memory of this machine, container or scheduler job."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

from eva.errors import UserError

# For each version of Linux control groups: the files with the limit and the usage, and the reclaimable field of
# memory.stat.
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # not Linux


def supports_bfloat16(proc: Path = Path("/proc")) -> bool:
    """Return whether the processor has instructions for bfloat16; False if that is unknown."""
    try:
        words = set((proc / "cpuinfo").read_text().split())
    except OSError:
        return False
    return not words.isdisjoint({"avx512_bf16", "amx_bf16", "bf16"})  # the last one is ARM's


def check_memory(num_slots: int, bytes_per_slot: int, other_remedy: str = "") -> None:
    """Raise a `UserError` if a replay buffer is larger than the free memory."""
    required, free = num_slots * bytes_per_slot, free_memory()
    if required > free:
        raise UserError(
            f"a replay buffer of {num_slots:,} states needs {required / 1e9:.1f} GB, but only {free / 1e9:.1f} GB of "
            f"memory are free: lower its capacity (replay.replay_capacity; buffer_size of EVADQN) to "
            f"{int(0.8 * free / bytes_per_slot):,} or less{other_remedy}."
        )


def free_memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes of main memory that this process can still allocate.

    This is the free memory of the machine, or less if a container or a cluster scheduler limits this process.
    """
    try:
        fields = dict(line.split(":") for line in (proc / "meminfo").read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):  # not Linux: use the total memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(min([free, *_free_in_groups(proc, cgroups)]))


def _free_in_groups(proc: Path, cgroups: Path) -> Iterator[float]:
    """Yield the free bytes within the limit of each control group of this process."""
    try:
        memberships = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for membership in memberships:
        _, controllers, path = membership.split(":", 2)
        if controllers == "":
            top, files = cgroups, _VERSION_2
        elif "memory" in controllers.split(","):
            top, files = cgroups / "memory", _VERSION_1
        else:
            continue
        group = top / path.lstrip("/")
        yield from (_free_in_group(each, *files) for each in (group, *group.parents) if each.is_relative_to(top))


def _free_in_group(group: Path, limit: str, used: str, reclaimable: str) -> float:
    try:
        # The usage counts cached files, which the kernel drops when it needs memory.
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        in_use = int((group / used).read_text()) - int(statistics.get(reclaimable, 0))
        return int((group / limit).read_text()) - in_use
    except (OSError, ValueError):  # no limit, or no permission to read it
        return math.inf
