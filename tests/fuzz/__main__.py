"""Attack run directories for a while and count what happens.

Each case copies a subject, damages it or kills a command in the middle, and compares what commands do with it with what
they do with an undamaged one:

    identical   the same result
    refused     exit code 2 and one sentence
    told        another result, and a sentence that names the damage
    believed    another result of a forged file, whose checksums are valid or were removed: nothing can notice that
    silent      another result, and nothing is said: a bug
    crashed     a traceback, an unknown exit code or a command that hangs: a bug
    outside     a file outside the subject was changed: a bug

Case N of a seed is the same on every machine: `python -m tests.fuzz --seed S --case N` repeats it and shows the output.
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
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from eva.runs.record.provenance import _git
from tests.fuzz.damage import DAMAGES
from tests.fuzz.subjects import EVALUATE, REPORT, SUBJECTS, TRAIN, Result, Subject, killed, perform, prepare

BUGS = ("silent", "crashed", "outside")
OUTCOMES = ("identical", "refused", "told", "believed", *BUGS)
TOLD = re.compile(r"damaged|left out|has no manifest\.json|going back")
PATHS_AND_TIMES = re.compile(r"\d+m \d\ds left|[\d,]+ steps/s|/\S*/case")
BATCH = 10  # cases in one process
SECONDS = 300.0  # a case that takes longer hangs; the machine may be busy with other work
MOST_OPERATIONS = 400  # of files, in a run of a subject: kills are drawn from these
EVENTS = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.listdir")


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
        subject = generator.choices(SUBJECTS, [6, 2, 1, 2])[0]
        name = generator.choice(list(subject.commands))
        folder, outside = self._copy(subject)
        what = f"{subject.name}, {name}: {DAMAGES[kind][0](folder, generator)}"
        before = contents(outside)
        result = perform(subject.commands[name], folder)
        outcome = self._judge(result, self._expected[subject.name, name], what, subject.name != "half")
        if kind == "structure" and outcome == "silent":
            outcome = "believed"
        if contents(outside) != before:
            outcome = "outside"
        return Case(kind, what, outcome, result.output)

    def _killed(self, generator: random.Random) -> Case:
        """Kill training up to three times, read what is there, and let it end."""
        subject = SUBJECTS[1]
        folder, _ = self._copy(subject)
        if is_new := generator.random() < 0.4:
            shutil.rmtree(folder / "run")
        words, what = TRAIN, ["new" if is_new else "half"]
        if not is_new and generator.random() < 0.4:
            words = (*TRAIN, "--restart")
        output = ""
        for _ in range(generator.choice([1, 1, 2, 3])):
            moment = generator.randrange(1, MOST_OPERATIONS)
            if generator.random() < 0.7:
                code = killed(words, folder, partial(kill_at, moment), SECONDS)
            else:
                code = killed(words, folder, nothing, after=moment / 500)
            what.append(f"{' '.join(words[5:])} killed at {moment}: {code}")
            if code not in (0, -signal.SIGKILL):
                return Case("kill", "; ".join(what), "crashed", output)
            seen = perform(generator.choice([EVALUATE, REPORT]), folder)
            output += seen.output
            if is_crash(seen):
                return Case("kill", "; ".join(what), "crashed", output)
        last = perform(TRAIN, folder)
        expected = self._expected["half", "resume"].digests
        is_same = last.code == 0 and all(last.digests.get(name) == digest for name, digest in expected.items())
        outcome = "crashed" if "Traceback" in output or is_crash(last) else "identical" if is_same else "silent"
        return Case("kill", "; ".join(what), outcome, output + last.output)

    def _judge(self, result: Result, expected: Result, what: str, is_reading: bool) -> str:
        """Return the outcome; a command that only reads leaves a damaged file as it is."""
        if is_crash(result):
            return "crashed"
        if result.code == 2:
            return "refused"
        left_alone = [name for name in expected.digests if is_reading and name in what]
        digests = [{n: d for n, d in each.digests.items() if n not in left_alone} for each in (result, expected)]
        said = [PATHS_AND_TIMES.sub("", each.output) for each in (result, expected)]
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


def nothing() -> None:
    """Run the command as it is."""


def kill_at(moment: int) -> None:
    """Kill this process at its operation `moment` on files: before it happens, or after a sync."""
    left = moment

    def count(event: str = "open", _: object = ()) -> None:
        nonlocal left
        if event in EVENTS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            count()
            return function(*arguments)

        return call

    os.fsync = counted(os.fsync)  # type: ignore[assignment]
    sys.addaudithook(count)


def is_crash(result: Result) -> bool:
    """Return whether a command ended in any other way than with success or one sentence."""
    if result.code not in (0, 2) or "Traceback" in result.output or "\x1b" in result.output:
        return True
    sentences = [line for line in result.output.splitlines() if line.startswith("eva: ")]
    return result.code == 2 and (len(sentences) != 1 or not sentences[0].endswith((".", "?")))


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return the content of all files below a folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def fuzz(seed: int, seconds: float, most_cases: int | None = None) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Run cases until the time is over; returns how often each (kind, outcome) occurred, and a line for each bug."""
    counts, bugs = Counter[tuple[str, str]](), []
    with tempfile.TemporaryDirectory(prefix="eva-fuzz-") as folder:
        fuzzer, end, number = Fuzzer(Path(folder), seed), time.monotonic() + seconds, 0
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
    print(
        f"commit {commit}, seed {asked.seed}, {time.strftime('%Y-%m-%d')}, {platform.machine()}, {minutes:.0f} minutes"
    )
    print(table(counts))
    return int(bool(bugs))


if __name__ == "__main__":
    raise SystemExit(main())
