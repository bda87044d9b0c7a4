"""The command line: its output, and one sentence with exit code 2 for every user error."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import eva
from eva.cli.main import COMMANDS, THREAD_ENVIRONMENT, main
from eva.cli.parsing import parse
from eva.cli.train import Train
from eva.config import Config
from eva.runs.record.columns import EPISODE_COLUMNS, METRICS
from tests.helpers.commands import refused
from tests.helpers.synthetic import draw_nothing

TINY = ["train", "smoke", "--steps", "300"]


pytestmark = pytest.mark.usefixtures("_in_empty_directory")


def test_train_writes_a_run_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TINY, "--weight", "0.2", "--seed", "3"]) == 0
    run = Path("runs/smoke/weight-0.2/seed-3")
    names = {path.name for path in run.iterdir()}
    expected = {"config.json", "provenance.json", "episodes.csv", "metrics.jsonl", "timing.jsonl", "status.json"}
    assert expected | {"policy.safetensors", "memory.safetensors"} <= names
    config = Config.from_json((run / "config.json").read_text())
    assert (config.seed, config.steps, config.eva.nonparametric_weight) == (3, 300, 0.2)
    assert (run / "episodes.csv").read_text().splitlines()[0] == EPISODE_COLUMNS
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [100, 200, 300]
    assert all(list(line) == list(METRICS) for line in lines)
    timings = [json.loads(line) for line in (run / "timing.jsonl").read_text().splitlines()]
    assert [sorted(timing) for timing in timings] == [["seconds", "step", "steps_per_second"]] * 3
    status = json.loads((run / "status.json").read_text())
    assert status.pop("largest_abs_q") > 0
    assert len(status.pop("sha256")) == 64
    assert status == {"state": "finished", "step": 300, "steps": 300}
    assert "is finished: 300 transitions" in capsys.readouterr().err


def test_provenance_records_the_run_but_no_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVA_TEST_SECRET", "hunter2-hunter2")
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/eva", *TINY])
    assert main([*TINY, "--out", "run"]) == 0
    text = Path("run/provenance.json").read_text()
    provenance = json.loads(text)
    assert set(provenance) == {"commit", "dirty", "argv", "versions", "threads", "device", "machine", "started"}
    assert provenance["argv"] == ["eva", *TINY]
    assert provenance["threads"] == 1
    assert "hunter2" not in text
    assert not any(value and value in text for name, value in os.environ.items() if "TOKEN" in name or "KEY" in name)


def test_training_from_config_json_gives_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TINY, "--eva.num-neighbours", "3", "--out", "first"]) == 0
    assert main(["train", "--config", "first/config.json", "--out", "second"]) == 0
    for name in ("config.json", "episodes.csv", "metrics.jsonl", "policy.safetensors"):
        assert Path("first", name).read_bytes() == Path("second", name).read_bytes()


def test_spin_count_is_set_unless_the_user_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, expected in ((None, THREAD_ENVIRONMENT["GOMP_SPINCOUNT"]), ("7", "7")):
        monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
        if given is not None:
            monkeypatch.setenv("GOMP_SPINCOUNT", given)
        assert main(["--version"]) == 0
        assert os.environ["GOMP_SPINCOUNT"] == expected


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"eva {eva.__version__}\n"


def test_preset_with_config_file_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.json").write_text(Config().to_json())
    assert "give one of them" in refused(["train", "smoke", "--config", "config.json"], capsys)


def test_flags_are_checked_together_with_the_start_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[tuple[int, ...]] = []
    sizes = {"channels": "4", "filter-sizes": "2", "strides": "1"}
    three = [word for name, size in sizes.items() for word in (f"--network.{name}", size, size, size)]
    assert main([*TINY, *three, "--out", "first"]) == 0
    flags = ["--network.channels", "8", "8", "8", "--out", "second"]
    assert main(["train", "--config", "first/config.json", *flags]) == 0
    monkeypatch.setattr("eva.runs.loop.train", lambda config, *_, **__: trained.append(config.network.channels))
    assert main(["train", "atari", "--game", "pong", "--network.channels", "8", "8", "8"]) == 0
    assert trained == [(8, 8, 8)]


def test_diverged_run_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--learner.learning-rate", "1e30", "--run.metrics-period-transitions", "1000", "--out", "run"]
    assert main(["train", "smoke", *flags]) == 2
    assert "the run diverged at" in capsys.readouterr().err
    assert list(Path("run/checkpoints").glob("diverged-step-*"))


def test_modules_in_the_working_directory_are_found(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Beside-v0', 'gymnasium.envs.classic_control.cartpole:CartPoleEnv', max_episode_steps=9)\n"
    )
    eva = Path(sys.executable).with_name("eva")
    flags = ["--env", "beside:Beside-v0", "--steps", "20", "--out", "run"]
    done = subprocess.run([eva, "train", *flags], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_training_ends_with_the_return_and_the_next_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TINY, "--maze.max-episode-steps", "20", "--out", "my run"]) == 0
    achieved, *words = capsys.readouterr().out.splitlines()
    rows = [line.split(",") for line in Path("my run/episodes.csv").read_text().splitlines()[1:]]
    late = [float(episode_return) for step, _, episode_return, _ in rows if int(step) > 240]
    assert achieved == f"mean return {sum(late) / len(late):.2f} ({len(late)} episodes in the last 20% of the run)"
    assert words == ["next:", "  eva evaluate 'my run'", "  eva inspect 'my run'", "  eva report 'my run'"]
    assert main([*shlex.split(words[1])[1:], "--episodes", "1"]) == 0
    short = ["train", "smoke", "--steps", "10", "--out", "short"]
    assert main(short) == 0
    assert capsys.readouterr().out.splitlines()[-5] == "no episode ended in the last 20% of the run"
    Path("short/episodes.csv").write_text("damaged")
    assert main(short) == 0, "it is finished"
    assert "'short/episodes.csv' is missing or damaged" in capsys.readouterr().out


def test_finished_run_is_not_changed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TINY, "--out", "run"]) == 0
    before = {path: path.stat().st_mtime_ns for path in Path("run").iterdir()}
    assert main([*TINY, "--out", "run"]) == 0
    assert "run is finished" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in Path("run").iterdir() if path.name != ".lock"} == {
        path: time for path, time in before.items() if path.name != ".lock"
    }


def test_provenance_records_every_continuation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TINY, "--out", "run"]) == 0
    first = json.loads(Path("run/provenance.json").read_text())
    for steps in (400, 500):
        assert main(["train", "smoke", "--steps", str(steps), "--out", "run"]) == 0
    provenance = json.loads(Path("run/provenance.json").read_text())
    continued = provenance.pop("continued")
    assert provenance == first
    assert [part["step"] for part in continued] == [300, 400]
    assert set(first) < set(continued[0])


def test_changed_settings_hash_into_the_directory_name() -> None:
    assert main([*TINY, "--eva.trace", "n-step"]) == 0
    (directory,) = Path("runs").iterdir()
    name, _, digits = directory.name.rpartition("-")
    assert name == "smoke"
    assert len(digits) == 8
    assert int(digits, 16) >= 0


@pytest.mark.parametrize("flags", [["--eva.trace", "n-step"], ["--run.threads", "0"]])
def test_config_file_of_a_run_finds_its_directory(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TINY, *flags]) == 0
    (config,) = Path("runs").glob("smoke-*/weight-0.4/seed-0/config.json")
    capsys.readouterr()
    assert main(["train", "--config", str(config)]) == 0
    assert f"{config.parent} is finished" in capsys.readouterr().err
    assert len(list(Path("runs").iterdir())) == 1


@pytest.mark.parametrize("flag", ["--env", "--environment.id"])
def test_train_accepts_any_gymnasium_environment(flag: str) -> None:
    flags = ["--steps", "300", "--learner.learning-starts-transitions", "100", "--environment.num-environments", "2"]
    assert main(["train", flag, "CartPole-v1", *flags]) == 0
    (run,) = Path("runs").glob("CartPole-v1-*/weight-0.4/seed-0")
    assert len((run / "episodes.csv").read_text().splitlines()) > 5


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["smok"], "there is no preset 'smok': did you mean 'smoke'?"),
        (["smoke", "--eva.num-neighbors", "3"], "no option --eva.num-neighbors: did you mean '--eva.num-neighbours'?"),
        (["smoke", "--weight", "1.3"], "--weight is 1.3, but must be a number between 0 and 1."),
        (["smoke", "--seed", "x"], "--seed is 'x', but must be a whole number of at least 0."),
        (
            ["smoke", "--eva.num_neighbours", "x"],
            "--eva.num-neighbours is 'x', but must be a whole number of at least 1.",
        ),
        (["smoke", "--weight=x"], "--weight is 'x', but must be a number between 0 and 1."),
        (["smoke", "--device", "tpu"], "--device is 'tpu', but must be one of 'auto', 'cpu', 'cuda'."),
        (["smoke", "--network.channels", "8", "x"], "is '8 x', but must be a list of whole numbers of at least 1."),
        (["smoke", "--seed", "-1"], "--seed is -1, but must be a whole number of at least 0."),
        (["smoke", "--steps", "2.5"], "--steps is '2.5', but must be a whole number of at least 1."),
        (["smoke", "--steps", "1e-3"], "--steps is '1e-3', but must be a whole number of at least 1."),
        (["smoke", "--steps=1.55e1"], "--steps is '1.55e1', but must be a whole number of at least 1."),
        (["smoke", "--steps", "1e99"], "but must be a whole number of at least 1."),
        (["smoke", "--steps", "1e999999999"], "--steps is '1e999999999', but must be a whole number of at least 1."),
        (["smoke", "--steps", "1e2", "--seed", "x"], "--seed is 'x', but must be a whole number of at least 0."),
        (["smoke", "--steps"], "--steps must be followed by a whole number of at least 1."),
        (["smoke", "--eva.trace", "tpc"], "--eva.trace is 'tpc', but must be one of 'tcp', 'n-step', 'kbrl'."),
        (["smoke", "extra"], "unexpected argument 'extra'"),
        (["smoke", "--seed", "1", "1"], "unexpected argument '1'"),
        (["smoke", "--restart", "yes"], "--restart takes no value, but got 'yes'"),
        (["smoke", "--run.stop_when_diverged=False"], "--run.stop-when-diverged takes no value, but got 'False'"),
        (["smoke", "--maze.num-coins", "59"], "between 1 and 58 coins"),
        (["smoke", "--maze.layout", "maps/none.txt"], "none.txt"),
        (["smoke", "--env", "CartPol-v1"], "did you mean 'CartPole-v1'?"),
        (["--env", "CartPole-v1", "--environment.id", "Acrobot-v1"], "--env and --environment.id are the same"),
        (["--env", "Pendulum-v1"], "discrete"),
        (["--env", "Blackjack-v1"], "an image or a vector"),
        (["smoke", "--network.filter-sizes", "9", "9"], "convolutions do not fit"),
        (["smoke", "--replay.replay-capacity", "1000000000"], "GB of memory are free"),
        (["--config", "none.json"], "cannot read none.json"),
        (["--config", "lr=1/none.json"], "cannot read lr=1/none.json"),
        (["--config=lr=1/none.json"], "cannot read lr=1/none.json"),
        (["--config", "first.json", "--config", "none.json"], "cannot read none.json"),
        (["--config", ""], "give a config.json that eva wrote"),
        ([""], "there is no preset ''"),
        (["smoke", "--out", "/proc/nowhere/run"], "cannot write /proc/nowhere/run"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert expected in refused(["train", *arguments], capsys)


def test_cuda_without_a_gpu_is_rejected(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "choose --device cpu or auto" in refused([*TINY, "--device", "cuda"], capsys)


def test_map_without_free_cells_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    Path("walls.txt").write_text("###\n###\n")
    assert "at least one free cell" in refused([*TINY, "--maze.layout", "walls.txt"], capsys)


def test_map_is_saved_with_the_run() -> None:
    Path("room.txt").write_text("....\n.#..\n....\n")
    assert main([*TINY, "--maze.layout", "room.txt", "--out", "run"]) == 0
    Path("room.txt").unlink()
    assert Config.from_json(Path("run/config.json").read_text()).maze.layout == "....\n.#..\n....\n"
    assert main(["train", "--config", "run/config.json", "--out", "again"]) == 0
    assert Path("run/episodes.csv").read_bytes() == Path("again/episodes.csv").read_bytes()


def test_directories_with_other_content_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TINY, "--out", "run"]) == 0
    capsys.readouterr()
    assert "holds another run (seed is 0 there, 1 here)" in refused([*TINY, "--seed", "1", "--out", "run"], capsys)
    Path("photos").mkdir()
    Path("photos/cat.jpg").write_bytes(b"miaow")
    assert "photos is not empty and holds no run" in refused([*TINY, "--out", "photos"], capsys)
    assert "cat.jpg is a file" in refused([*TINY, "--out", "photos/cat.jpg"], capsys)


def test_run_directory_is_locked_during_training(capsys: pytest.CaptureFixture[str]) -> None:
    hold = "f = open('run/.lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); time.sleep(60)"
    code = f"import fcntl, time; {hold}"
    Path("run").mkdir()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert "another process is training in run" in refused([*TINY, "--out", "run"], capsys)
        other.kill()
    assert main([*TINY, "--out", "run"]) == 0  # a crash leaves no lock behind


def test_presets_and_help_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["presets"]) == 0
    listed = capsys.readouterr().out
    assert all(
        name in listed
        for name in ("maze-1-coin", "maze-2-coins", "maze-4-coins", "atari", "atari-small", "cartpole", "smoke")
    )
    assert main(["--help"]) == 0
    assert "eva COMMAND" in capsys.readouterr().out
    assert main([]) == 0
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--help"])
    assert "--eva.num-neighbours" in capsys.readouterr().out


def test_preset_is_printed_in_full_as_a_configuration_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["presets", "maze-2-coins"]) == 0
    printed = capsys.readouterr().out
    assert Config.from_json(printed) == eva.preset("maze-2-coins")
    assert main(["presets", "smoke"]) == 0
    Path("smoke.json").write_text(capsys.readouterr().out)
    assert main(["train", "--config", "smoke.json", "--steps", "20"]) == 0
    assert Path("runs/smoke/weight-0.4/seed-0").is_dir()


@pytest.mark.parametrize(
    ("word", "steps"), [("1e5", 100_000), ("1_000_000", 1_000_000), ("1_2e1", 120), ("1.25e2", 125), ("1E+2", 100)]
)
def test_counts_may_be_written_in_scientific_notation(word: str, steps: int) -> None:
    for flags in (["--steps", word], [f"--steps={word}"]):
        assert parse(Train, ["smoke", *flags]).steps == steps


def test_other_options_keep_scientific_notation() -> None:
    flags = ["--steps", "1e1", "--learner.learning-rate", "1e-2", "--network.hidden_sizes", "1e1", "8", "--env", "1e1"]
    asked = parse(Train, flags)
    assert (asked.steps, asked.learner.learning_rate) == (10, 0.01)
    assert (asked.network.hidden_sizes, asked.env) == ((10, 8), "1e1")


def test_help_shows_the_defaults_of_the_preset(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["train", "smoke", "--help"])
    assert "(default: 1000)" in capsys.readouterr().out


def test_help_and_presets_cite_no_ledger_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["presets"]) == 0
    for command in COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
    assert re.findall(r"\bP\d+\b", capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["evaluate"], "RUN is missing: see eva evaluate --help."),
        (["evaluate", "run", "--weights", "a"], "--weights is 'a', but must be a list of numbers between 0 and 1."),
        (["inspect", "run", "--no-open", "yes"], "--no-open takes no value, but got 'yes'"),
        (["inspect", "run", "--no-open", "--sed", "1"], "there is no option --sed: did you mean '--seed'?"),
        (["presets", "smok"], "there is no preset 'smok': did you mean 'smoke'?"),
        (["presets", "smoke", "x"], "unexpected argument 'x'"),
        (["train", "--preset", "smoke"], "there is no option --preset"),
    ],
)
def test_bad_arguments_of_other_commands_are_one_sentence(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in refused(arguments, capsys)


def test_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'train'?" in refused(["trian"], capsys)


def test_report_compares_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for weight in ("0", "0.4"):
        assert main([*TINY, "--weight", weight, "--maze.max-episode-steps", "50"]) == 0
    capsys.readouterr()
    assert main(["report", "runs"]) == 0
    verdict, page = capsys.readouterr().out.splitlines()
    assert "DQN" in verdict
    assert Path(page).read_text().startswith("<!DOCTYPE html>")
    assert Path(page).with_name("report.png").read_bytes().startswith(b"\x89PNG")


def test_report_takes_the_name_of_a_page_or_of_a_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_nothing(monkeypatch)
    assert main([*TINY, "--out", "runs/one"]) == 0
    for out, page, figure in (("x.html", "x.html", "x.png"), ("here", "here/report.html", "here/report.png")):
        assert main(["report", "runs", "--out", out]) == 0
        assert capsys.readouterr().out.endswith(f"\n{page}\n")
        assert Path(page).read_text().startswith("<!DOCTYPE html>")
        assert Path(figure).read_bytes().startswith(b"\x89PNG")


def test_report_without_runs_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'nowhere' is not a directory" in refused(["report", "nowhere"], capsys)
    assert "give at least one run directory" in refused(["report"], capsys)


def test_environment_state_must_be_arrays_and_plain_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eva.envs.maze.VectorCoinMaze.get_state", lambda _: {"place": (1, 2)})
    assert main([*TINY, "--out", "run"]) == 2
    assert "let the environment's get_state return arrays and plain data." in capsys.readouterr().err


def test_keyboard_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("eva.agent.agent.EVAAgent.act", interrupted)
    assert main([*TINY, "--out", "run"]) == 130
    assert json.loads(Path("run/status.json").read_text())["state"] == "failed"


OWN_MODULE = """
import json, sys, gymnasium, numpy
from gymnasium.envs.classic_control import CartPoleEnv
assert sys.path[-1] == ENTRY
gymnasium.register("Own-v0", entry_point=CartPoleEnv, max_episode_steps=20)
"""
SHADOWS = ("queue", "types", "random", "json", "torch", "numpy", "gymnasium")


@pytest.mark.parametrize("start", ["eva", "python -m eva"])
def test_files_beside_the_user_replace_no_module(start: str) -> None:
    for name in SHADOWS:
        Path(f"{name}.py").write_text("open('shadowed', 'w').close()\nraise SystemExit('shadowed')\n")
    Path("own.py").write_text(OWN_MODULE.replace("ENTRY", repr(str(Path.cwd()))))
    grid = 'env = "own:Own-v0"\nseeds = 1\nout = "runs"\n[settings]\nsteps = 20\n'
    Path("grid.toml").write_text(grid + "learner.learning_starts_transitions = 10\n")
    script = "import sys; sys.path.remove(''); from eva.cli.main import main; sys.exit(main())"
    # runpy imports some modules before eva can act: `python -m eva` has to rely on names that are loaded at the start
    words = ["-c", script] if start == "eva" else ["-m", "eva"]
    if start != "eva":
        for name in ("queue", "types", "random"):
            Path(f"{name}.py").unlink()
    done = subprocess.run([sys.executable, *words, "sweep", "grid.toml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + Path("runs/seed-0.log").read_text()
    assert not Path("shadowed").exists()


def test_path_is_restored_after_the_users_module_is_imported() -> None:
    Path("own.py").write_text(OWN_MODULE.replace("ENTRY", repr(str(Path.cwd()))))
    before = list(sys.path)
    assert main(["train", "--env", "own:Own-v0", "--steps", "20", "--out", "run"]) == 0
    assert sys.path == before
