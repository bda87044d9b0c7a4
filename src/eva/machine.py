"""What the machine has for us: cores, and memory that things may not fit into."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from eva.errors import UserError

_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")  # of Linux's control groups
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")


def num_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # not Linux


def check_memory(num_slots: int, bytes_per_slot: int, other_remedy: str = "") -> None:
    """Refuse a replay buffer that is larger than the free memory."""
    need, free = num_slots * bytes_per_slot, free_memory()
    if need > free:
        raise UserError(
            f"a replay buffer of {num_slots:,} states needs {need / 1e9:.1f} GB, but only {free / 1e9:.1f} GB of "
            f"memory are free: lower its capacity (replay.replay_capacity; buffer_size of EVADQN) to "
            f"{int(0.8 * free / bytes_per_slot):,} or less{other_remedy}."
        )


def free_memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes of main memory that this process can still take: what the machine has, and what it may have.

    A container, and a job of a cluster's scheduler, may be given less than the machine has.
    """
    try:
        fields = dict(line.split(":") for line in (proc / "meminfo").read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):  # not Linux: all there is
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(min([free, *_left_in_groups(proc, cgroups)]))


def _left_in_groups(proc: Path, cgroups: Path) -> Iterator[float]:
    """Yield what is left of the limit on every control group that this process is in."""
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
        yield from (_left(each, *files) for each in (group, *group.parents) if each.is_relative_to(top))


def _left(group: Path, limit: str, used: str, reclaimable: str) -> float:
    try:
        # Among what is used are files that the kernel drops when it needs the room.
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        taken = int((group / used).read_text()) - int(statistics.get(reclaimable, 0))
        return int((group / limit).read_text()) - taken
    except (OSError, ValueError):  # no limit here, or not for us to read
        return math.inf
