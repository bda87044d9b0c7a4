"""Free memory on a machine, in a container and in a scheduler's job."""

from __future__ import annotations

from pathlib import Path

import pytest

from eva.machine import free_memory, supports_bfloat16

GIB = 1024**3


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with 8 GiB free, without control groups."""
    write(tmp_path / "proc" / "meminfo", f"MemTotal: {16 * 1024**2} kB\nMemAvailable: {8 * 1024**2} kB\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def group(folder: Path, names: tuple[str, str, str], limit: str, used: int, reclaimable: int) -> None:
    for name, content in zip(names, (limit, used, "anon 1\nfile 2"), strict=True):
        write(folder / name, f"{content}\n")
    with (folder / "memory.stat").open("a") as file:
        file.write(f"inactive_file {reclaimable}\ntotal_inactive_file {reclaimable}\n")


def free(machine: Path) -> int:
    return free_memory(machine / "proc", machine / "cgroup")


VERSION_2 = ("memory.max", "memory.current", "memory.stat")
VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")


def test_without_limits_all_free_memory_counts(machine: Path) -> None:
    assert free(machine) == 8 * GIB
    write(machine / "proc" / "self" / "cgroup", "3:cpu,cpuacct:/job\n0::/job\n")
    assert free(machine) == 8 * GIB
    group(machine / "cgroup" / "job", VERSION_2, "max", GIB, 0)
    assert free(machine) == 8 * GIB


def test_limit_above_free_memory_has_no_effect(machine: Path) -> None:
    write(machine / "proc" / "self" / "cgroup", "0::/job\n")
    group(machine / "cgroup" / "job", VERSION_2, str(20 * GIB), GIB, 0)
    assert free(machine) == 8 * GIB


def test_smallest_limit_of_nested_groups_applies_without_cached_files(machine: Path) -> None:
    write(machine / "proc" / "self" / "cgroup", "0::/slurm/job/step\n")
    group(machine / "cgroup" / "slurm" / "job" / "step", VERSION_2, "max", GIB, 0)
    group(machine / "cgroup" / "slurm" / "job", VERSION_2, str(4 * GIB), 3 * GIB, 2 * GIB)
    group(machine / "cgroup" / "slurm", VERSION_2, str(7 * GIB), 3 * GIB, 0)
    assert free(machine) == 3 * GIB


def test_limits_of_version_1_groups_apply(machine: Path) -> None:
    write(machine / "proc" / "self" / "cgroup", "4:memory:/docker/abc\n3:cpu:/\n")
    group(machine / "cgroup" / "memory" / "docker" / "abc", VERSION_1, str(2 * GIB), GIB, GIB // 2)
    assert free(machine) == 3 * GIB // 2


def test_free_memory_of_this_machine_is_positive() -> None:
    assert 0 < free_memory() < 2**50


@pytest.mark.parametrize(
    ("line", "supported"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 clzero", True),
        ("flags\t\t: avx512f amx_bf16", True),
        ("Features\t: fp asimd bf16 i8mm", True),
        ("flags\t\t: fpu avx512f avx512_bf161", False),
    ],
)
def test_bfloat16_is_found_among_the_processors_flags(tmp_path: Path, line: str, supported: bool) -> None:
    write(tmp_path / "cpuinfo", f"processor\t: 0\n{line}\nbugs\t\t:\n")
    assert supports_bfloat16(tmp_path) == supported


def test_bfloat16_is_not_assumed_where_the_flags_are_unknown(tmp_path: Path) -> None:
    assert not supports_bfloat16(tmp_path)
