"""Attack run directories for a while and count what happens.

Each case copies a subject, damages it or kills a command in the middle, and compares what commands do with it with what
they do with an undamaged one:

    identical   the same result
    refused     exit code 2 and one sentence
    told        another result, and a sentence that names the damage
    believed    another result of a forged file, whose checksums are valid or were removed: nothing can notice that
    silent      another result, and nothing is said: a bug
    crashed     a traceback, an unknown exit code or a command that hangs: a bug
    outside     a file outside the subject was changed, or read through a link: a bug

Most kills are at a random system call of the command, before or after it is carried out (with ptrace, on Linux;
elsewhere at random times), others at a random operation on files as Python reports them, or at a random time.

Case N of a seed does the same damage again: `python -m tests.fuzz --seed S --case N` repeats it and shows its output.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from eva.runs.record.provenance import _git
from tests.fuzz.damage import DAMAGES
from tests.fuzz.kills import killed_after, killed_at_call, killed_at_operation
from tests.fuzz.subjects import EVALUATE, REPORT, SUBJECTS, Result, Subject, perform, prepare

BUGS = ("silent", "crashed", "outside")
OUTCOMES = ("identical", "refused", "told", "believed", *BUGS)
FORGED = ("structure", "arrays")
TOLD = re.compile(r"damaged|left out|has no manifest\.json|going back")
PATHS_AND_PROGRESS = re.compile(r".*s left .*\n|/\S*/case")
BATCH = 10  # cases in one process
OWN = ("case", "outside", "cases.jsonl")  # what the fuzzer itself writes below its folder
SECONDS = 300.0  # a case that takes longer hangs; the machine may be busy with other work
MOST_OPERATIONS = 400  # of files, in a run of a subject: kills are drawn from these


@dataclass(frozen=True)
class Case:
    """What was done, and what came of it."""

    kind: str
    what: str
    outcome: str
    output: str


class Fuzzer:
    """Runs the cases of one seed in a temporary folder."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root, self._seed = root, seed
        prepare(root)
        self._expected = {
            (subject.name, name): self._perform(subject, name) for subject in SUBJECTS for name in subject.commands
        }
        for (subject, name), result in self._expected.items():
            assert result.code == 0, f"{subject}, {name}: {result.output}"
        self._stamps = stamps(root)
        self._num_stops: dict[tuple[str, str], int] = {}
        with suppress(OSError):  # this system cannot trace processes
            self._num_stops = {
                (subject.name, name): killed_at_call(partial(self._code, subject, name), None)[1]
                for subject in SUBJECTS
                for name in subject.writes
            }

    @property
    def kills_at_calls(self) -> bool:
        """Whether this system can kill at a system call."""
        return bool(self._num_stops)

    def run_batch(self, first: int) -> list[Case]:
        """Run cases from `first` on in one forked process, up to `BATCH`, or until one ends it."""
        path = self._root / "cases.jsonl"
        path.write_text("")
        child = os.fork()
        if child == 0:
            with path.open("a", buffering=1) as file:
                for number in range(first, first + BATCH):
                    signal.alarm(int(SECONDS))  # a command that hangs ends the batch
                    file.write(json.dumps(asdict(self.run(number))) + "\n")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        cases = [Case(**json.loads(line)) for line in path.read_text().splitlines()]
        if status != 0:
            code = os.waitstatus_to_exitcode(status)
            cases.append(Case("bit flip", f"the process of the commands ended with {code}", "crashed", ""))
        return cases

    def run(self, number: int) -> Case:
        """Run case `number`."""
        generator = random.Random(f"{self._seed}-{number}")
        kinds = [*DAMAGES, "kill"]
        shares = [share for _, share in DAMAGES.values()]
        (kind,) = generator.choices(kinds, [*shares, 1 - sum(shares)])
        return self._killed(generator) if kind == "kill" else self._damaged(kind, generator)

    def _damaged(self, kind: str, generator: random.Random) -> Case:
        subject = generator.choices(SUBJECTS, [each.share for each in SUBJECTS])[0]
        name = generator.choice(list(subject.commands))
        folder, outside = self._copy(subject)
        what = f"{subject.name}, {name}: {DAMAGES[kind][0](folder, generator)}"
        before = contents(outside)
        marked = [] if "hard link" in what else unread(outside)
        result = perform(subject.commands[name], folder)
        read = [path for path in marked if os.lstat(path).st_atime_ns != 0]
        is_reading = not subject.is_started or name not in subject.writes
        outcome = self._judge(result, self._expected[subject.name, name], what, is_reading)
        if kind in FORGED and outcome == "silent":
            outcome = "believed"
        if read or contents(outside) != before or stamps(self._root) != self._stamps:
            outcome = "outside"
        return Case(kind, what, outcome, result.output)

    def _killed(self, generator: random.Random) -> Case:
        """Kill a command up to three times, read what is there, and let it end."""
        subject = generator.choices(*zip(*((each, each.share) for each in SUBJECTS if each.writes), strict=True))[0]
        name = generator.choice(subject.writes)
        folder, _ = self._copy(subject)
        what = f"{subject.name}, {name}"
        if name == "resume" and generator.random() < 0.5:
            shutil.rmtree(folder / "run")
            what += ", new"
        output = ""
        for _ in range(generator.choice([1, 1, 2, 3])):
            code, how = self._kill(subject, name, generator)
            what += f"; killed {how}: {code}"
            if code not in (0, -signal.SIGKILL):
                return Case("kill", what, "crashed", output)
            if "experiment" not in name:
                seen = perform(generator.choice([EVALUATE, REPORT]), folder)
                output += seen.output
                if is_crash(seen):
                    return Case("kill", what, "crashed", output)
        last = perform(subject.commands["resume" if name == "restart" else name], folder)
        output += last.output
        expected = self._expected[subject.name, name].digests
        is_same = last.code == 0 and all(last.digests.get(path) == digest for path, digest in expected.items())
        return Case("kill", what, "crashed" if is_crash(last) else "identical" if is_same else "silent", output)

    def _kill(self, subject: Subject, name: str, generator: random.Random) -> tuple[int, str]:
        """Run a command and kill it; returns its exit code, and how it was killed."""
        command, kind, share = partial(self._code, subject, name, False), generator.random(), generator.random()
        num_stops = self._num_stops.get((subject.name, name))
        if kind < 0.6 and num_stops is not None:
            stop = 1 + int(share * num_stops)
            return killed_at_call(command, stop)[0], f"at stop {stop} of its system calls"
        if kind < 0.85:
            operation = 1 + int(share * MOST_OPERATIONS)
            return killed_at_operation(command, operation), f"at operation {operation}"
        return killed_after(command, share), f"after {share:.2f} s"

    def _code(self, subject: Subject, name: str, copies: bool = True) -> int:
        """Run a command, on a new copy of the subject or on what is there, and return its exit code."""
        if copies:
            self._copy(subject)
        result = perform(subject.commands[name], self._root / "case")
        return 1 if is_crash(result) else result.code

    def _judge(self, result: Result, expected: Result, what: str, is_reading: bool) -> str:
        """Return the outcome; a command that only reads leaves a damaged file as it is."""
        if is_crash(result):
            return "crashed"
        if result.code == 2:
            return "refused"
        left_alone = [name for name in expected.digests if is_reading and name in what]
        digests = [{n: d for n, d in each.digests.items() if n not in left_alone} for each in (result, expected)]
        said = [PATHS_AND_PROGRESS.sub("", each.output) for each in (result, expected)]
        if digests[0] == digests[1] and (said[0] == said[1] or "goes on from" in said[0]):
            return "identical"
        return "told" if TOLD.search(result.output) else "silent"

    def _perform(self, subject: Subject, name: str) -> Result:
        folder, _ = self._copy(subject)
        return perform(subject.commands[name], folder)

    def _copy(self, subject: Subject) -> tuple[Path, Path]:
        """Copy a subject to the folder of all cases; returns it and the folder of the files outside."""
        folder, outside = self._root / "case", self._root / "outside"
        for path in (folder, outside):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self._root / subject.name, folder)
        outside.mkdir()
        return folder, outside


def is_crash(result: Result) -> bool:
    """Return whether a command ended in any other way than with success or one sentence."""
    if result.code not in (0, 2) or "Traceback" in result.output or "\x1b" in result.output:
        return True
    sentences = [line for line in result.output.splitlines() if line.startswith("eva: ")]
    return result.code == 2 and (len(sentences) != 1 or not sentences[0].endswith((".", "?")))


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return the content of all files below a folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def unread(folder: Path) -> list[Path]:
    """Set the access times of all files and folders to 0, and return those that would show an access."""
    paths = [folder, *sorted(path for path in folder.rglob("*") if not path.is_symlink())]
    for path in paths:
        os.utime(path, (0, 0))
    return [path for path in paths if path.is_file() or path != folder]


def stamps(root: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of change of everything below `root` but the case itself and the files outside it."""
    paths = [path for each in sorted(root.iterdir()) if each.name not in OWN for path in (each, *each.rglob("*"))]
    return {str(path): (status.st_size, status.st_mtime_ns) for path in paths for status in [os.lstat(path)]}


def fuzz(seed: int, seconds: float, most_cases: int | None = None) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Run cases until the time is over; returns how often each (kind, outcome) occurred, and a line for each bug."""
    counts, bugs = Counter[tuple[str, str]](), []
    with tempfile.TemporaryDirectory(prefix="eva-fuzz-") as folder:
        fuzzer, end, number = Fuzzer(Path(folder), seed), time.monotonic() + seconds, 0
        if not fuzzer.kills_at_calls:
            print("this system cannot trace processes: no kills at system calls", flush=True)
        while time.monotonic() < end and (most_cases is None or number < most_cases):
            for case in fuzzer.run_batch(number):
                counts[case.kind, case.outcome] += 1
                if case.outcome in BUGS:
                    bugs.append(f"case {number} of seed {seed}: {case.outcome}: {case.what}")
                    print(bugs[-1], flush=True)
                number += 1
            if number % (20 * BATCH) == 0:
                print(f"{number} cases", flush=True)
    return counts, bugs


def table(counts: Counter[tuple[str, str]]) -> str:
    """Return the counts as a table in Markdown."""
    rows = [[kind, *(counts[kind, each] for each in OUTCOMES)] for kind in [*DAMAGES, "kill"]]
    rows.append(["all", *(sum(counts[kind, each] for kind in [*DAMAGES, "kill"]) for each in OUTCOMES)])
    lines = [["kind", *OUTCOMES, "cases"], ["---"] * (len(OUTCOMES) + 2)]
    lines += [[*map(str, row), str(sum(int(cell) for cell in row[1:]))] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> int:
    """Run cases for a while, or one case again; returns 1 if there was a bug."""
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1200, help="time to run for (1200)")
    parser.add_argument("--cases", type=int, help="most cases; by default only the time ends it")
    parser.add_argument("--seed", type=int, default=0, help="seed of all cases (0)")
    parser.add_argument("--case", type=int, help="run only this case and show its output")
    asked = parser.parse_args()
    if asked.case is not None:
        with tempfile.TemporaryDirectory(prefix="eva-fuzz-") as folder:
            case = Fuzzer(Path(folder), asked.seed).run(asked.case)
        print(f"{case.kind}: {case.what}: {case.outcome}\n{case.output}")
        return int(case.outcome in BUGS)
    commit = _git("describe", "--always", "--dirty")
    start = time.monotonic()
    counts, bugs = fuzz(asked.seed, asked.seconds, asked.cases)
    minutes = (time.monotonic() - start) / 60
    used = os.times()
    seconds = used.user + used.system + used.children_user + used.children_system
    print(
        f"commit {commit}, seed {asked.seed}, {time.strftime('%Y-%m-%d')}, {platform.machine()}, {minutes:.0f} min, "
        f"{seconds:.0f} s of one core"
    )
    print(table(counts))
    return int(bool(bugs))


if __name__ == "__main__":
    raise SystemExit(main())
