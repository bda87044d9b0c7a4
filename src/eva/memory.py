"""How much memory there is, and what does not fit into it."""

from __future__ import annotations

import os
from pathlib import Path

from eva.errors import UserError


def check_memory(
    num_slots: int, bytes_per_slot: int, other_remedy: str = "", capacity: str = "replay.replay_capacity"
) -> None:
    """Refuse a replay buffer that is larger than the free memory; `capacity` is what its size is called."""
    need, free = num_slots * bytes_per_slot, free_memory()
    if need > free:
        raise UserError(
            f"a replay buffer of {num_slots:,} states needs {need / 1e9:.1f} GB, but only {free / 1e9:.1f} GB of "
            f"memory are free: lower {capacity} to {int(0.8 * free / bytes_per_slot):,} or less"
            f"{other_remedy}."
        )


def free_memory() -> int:
    """Return the bytes of main memory that a process can still take."""
    try:
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):  # not Linux: all there is
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
