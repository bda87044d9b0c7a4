"""Videos show the first episode of an evaluation and change nothing about it."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image, ImageSequence

import eva
from eva.build import build_environment
from eva.cli.main import main
from eva.config import Config
from eva.envs.vector import GymnasiumVector, make_gymnasium
from eva.presets import for_environment
from eva.runs.evaluate import evaluate
from eva.runs.pictures import enlarged
from eva.runs.video import Video
from tests.helpers.agents import changed, tiny
from tests.helpers.browser import chromium
from tests.helpers.commands import refused
from tests.helpers.inspector import PONG, trained

pytestmark = pytest.mark.usefixtures("_in_empty_directory")

MAZE = tiny(steps=120)


class Dice(gymnasium.Env):  # type: ignore[type-arg]
    """Rewards are drawn from the generator that `render` draws from too; the picture's shade is the step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.num_steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.num_steps += 1
        return np.zeros(2, np.float32), self.np_random.random(), self.num_steps == 5, False, {}

    def render(self) -> Any:
        self.np_random.random()
        return np.full((3, 5, 3), 40 * self.num_steps, np.uint8)


class Blind(Dice):
    metadata = {"render_modes": []}  # noqa: RUF012


@pytest.fixture(autouse=True)
def _environments(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Dice, Blind):
        spec = gymnasium.envs.registration.EnvSpec(f"{kind.__name__}-v0", kind)
        monkeypatch.setitem(gymnasium.registry, spec.id, spec)


def of(environment_id: str) -> Config:
    return changed(MAZE, environment={"id": environment_id}, learner={"learning_starts_transitions": 1_000})


@pytest.fixture(scope="module")
def maze(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(MAZE, tmp_path_factory.mktemp("runs") / "maze")


def frames(path: Path) -> list[np.ndarray]:
    """Return the frames of a GIF, as often as they are shown at its speed."""
    with Image.open(path) as image:
        shown = [(np.asarray(each.convert("RGB")), each.info["duration"]) for each in ImageSequence.Iterator(image)]
    shortest = min(duration for _, duration in shown)
    return [frame for frame, duration in shown for _ in range(duration // shortest)]


@pytest.mark.parametrize("suffix", ["gif", "mp4"])
def test_returns_are_the_same_with_a_video(suffix: str, maze: Path, tmp_path: Path) -> None:
    plain = evaluate(maze, [0.0, 0.7], 3, seed=4)
    filmed = evaluate(maze, [0.0, 0.7], 3, seed=4, video=tmp_path / "new" / f"maze.{suffix}")
    for one, other in zip(plain, filmed, strict=True):
        assert one.episode_returns.tolist() == other.episode_returns.tolist()
        assert one.changed_share == other.changed_share
    assert [path.name for path in (tmp_path / "new").iterdir()] == [f"maze.{suffix}"]


def test_gif_shows_every_state_of_the_first_episode(maze: Path, tmp_path: Path) -> None:
    path = tmp_path / "maze.gif"
    (played,) = evaluate(maze, [0.7], 3, video=path)
    shown = frames(path)
    assert len(shown) == played.episode_lengths[0] + 1
    seed = int(np.random.SeedSequence([0, 0]).generate_state(2)[0])
    (first,) = build_environment(changed(MAZE, seed=seed)).reset()
    height, width, _ = enlarged(first, 400).shape
    assert shown[0].shape == (height + height % 2, width + width % 2, 3)
    assert np.array_equal(shown[0][:height, :width], enlarged(first, 400))


def test_mp4_is_h264_as_browsers_play_it(maze: Path, tmp_path: Path) -> None:
    path, again = tmp_path / "maze.mp4", tmp_path / "again.mp4"
    (played,) = evaluate(maze, [0.7], 2, video=path)
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-hide_banner", "-i", str(path), "-f", "null", "-"]
    about = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert re.search(r"Video: h264 .* yuv420p.* 10 fps", about)
    assert int(re.findall(r"frame= *(\d+)", about)[-1]) == played.episode_lengths[0] + 1
    evaluate(maze, [0.7], 2, video=again)
    assert path.read_bytes() == again.read_bytes()
    assert path.read_bytes().index(b"moov") < path.read_bytes().index(b"mdat"), "it plays before it is loaded"


@pytest.mark.slow
def test_mp4_plays_in_a_browser(maze: Path, tmp_path: Path) -> None:
    (played,) = evaluate(maze, [0.7], 1, video=tmp_path / "maze.mp4")
    (tmp_path / "page.html").write_text("<video src=maze.mp4 muted></video>")
    with chromium() as browser:
        tab = browser.new_page()
        tab.goto((tmp_path / "page.html").as_uri())
        seconds = tab.evaluate(
            """() => new Promise((done) => {
              const video = document.querySelector("video");
              video.addEventListener("ended", () => done(video.duration));
              video.addEventListener("error", () => done(video.error.message));
              video.playbackRate = 8;
              video.play();
            })"""
        )
    assert seconds == pytest.approx((played.episode_lengths[0] + 1) / 10, abs=0.11)


def test_render_is_used_and_cannot_change_the_episode(tmp_path: Path) -> None:
    run = trained(of("Dice-v0"), tmp_path / "run")
    path = tmp_path / "dice.gif"
    plain, filmed = (evaluate(run, [0.5], 3, video=video)[0] for video in (None, path))
    assert plain.episode_returns.tolist() == filmed.episode_returns.tolist()
    shown = frames(path)
    assert [int(frame[0, 0, 0]) for frame in shown] == [0, 40, 80, 120, 160, 200], "the last state too"
    assert shown[0].shape == (240, 400, 3)
    with Image.open(path) as image:
        assert image.info["duration"] == 50


@pytest.mark.parametrize("name", ["video.avi", "video", "video.MP4"])
def test_unknown_suffixes_are_rejected(name: str, maze: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = refused(["evaluate", str(maze), "--video", name], capsys)
    assert f"a video must end in .mp4 or .gif, unlike '{name}': choose another name." in sentence


def test_vectors_without_render_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(of("Blind-v0"), tmp_path / "run")
    path = tmp_path / "blind.gif"
    sentence = refused(["evaluate", str(run), "--episodes", "1", "--video", str(path)], capsys)
    assert (
        "the observations are vectors, and the environment gives no picture (it has no render mode rgb_array)"
        in sentence
    )
    assert not path.exists()


def test_missing_packages_are_named(
    maze: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    sentence = refused(["evaluate", str(maze), "--video", "x.mp4"], capsys)
    assert 'run pip install "ephemeral-value-adjustments[video]", or record a .gif file or no video.' in sentence


@pytest.mark.parametrize("render", [lambda _: 1 / 0, lambda _: None, lambda _: np.zeros((2, 2), np.uint8)])
def test_pictures_that_cannot_be_used_end_in_a_reason(render: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dice, "render", render)
    environment = GymnasiumVector(lambda: make_gymnasium("Dice-v0", draws=True), [0], draws=True)
    environment.reset()
    assert environment.picture is None
    assert environment.no_picture.startswith("render() ")


def test_environments_draw_only_if_asked() -> None:
    environment = build_environment(of("Dice-v0"))
    environment.reset()
    assert environment.picture is None  # type: ignore[attr-defined]
    assert for_environment("Dice-v0").environment.id == "Dice-v0"


def test_failed_episode_writes_no_video(tmp_path: Path) -> None:
    environment = build_environment(MAZE)
    for suffix in ("gif", "mp4"):
        path = tmp_path / f"maze.{suffix}"
        with suppress(KeyError), Video(path) as video:
            video.add(environment, environment.reset()[0])
            raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_command_prints_what_the_video_shows(maze: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "maze.gif"
    assert main(["evaluate", str(maze), "--episodes", "1", "--weights", "0", "0.4", "--video", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{path}: the first episode with weight 0.4"
    with pytest.raises(eva.UserError, match="cannot write"):
        eva.evaluate(maze, [0.0], 1, video=maze / "config.json" / "x.gif")


@pytest.mark.slow
def test_atari_shows_its_screen_in_colour(tmp_path: Path) -> None:
    path = tmp_path / "pong.gif"
    run = trained(PONG, tmp_path / "run")
    (played,) = evaluate(run, [0.4], 1, video=path)
    shown = frames(path)
    assert shown[0].shape == (420, 320, 3)
    assert len(np.unique(shown[0].reshape(-1, 3), axis=0)) > 3
    assert len(shown) <= played.episode_lengths[0] + 1
