"""The inspector's page contains the agent's own values and each memory once; bad arguments are rejected."""

from __future__ import annotations

import io
import math
import re
import shutil
import webbrowser
from base64 import b64decode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from eva.agent.adjuster import EphemeralValueAdjuster
from eva.agent.network import is_channels_last
from eva.cli.main import main
from eva.digests import write_manifest
from eva.files import Folder
from eva.inspect.axes import NAMES, axes
from eva.inspect.episode import PlayedEpisode, play
from eva.inspect.memories import MAX_THUMBNAILS, Memories
from eva.inspect.page import Plane, describe, inspect_run, sample_slots
from eva.inspect.pictures import THUMBNAIL_SIZE, Painter, limited_sheets, sheets, thumbnails
from eva.report.pages import write_report
from eva.runs.evaluate import evaluate
from eva.runs.loading import load_run
from eva.runs.pictures import channel_colours, legend
from eva.types import EnvironmentSpec
from tests.helpers.agents import changed
from tests.helpers.commands import refused
from tests.helpers.inspector import MAZE, PONG, Page, read_page, trained, unpack

pytestmark = pytest.mark.usefixtures("_in_empty_directory")

RUNS = {
    "maze": MAZE,
    "pong": PONG,
    "kbrl": changed(MAZE, steps=300, eva={"trace": "kbrl"}),
    "vector": changed(MAZE, steps=300, environment={"id": "CartPole-v1"}),
}
WEIGHT = 0.7


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    return {name: trained(config, root / name) for name, config in RUNS.items()}


@pytest.fixture(params=RUNS)
def shown(request: pytest.FixtureRequest, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Any:
    """An episode, the inputs and outputs of the adjuster in it, the page's data, and the agent."""
    config, agent = load_run(runs[request.param])
    used: list[tuple[np.ndarray, np.ndarray]] = []
    adjust = EphemeralValueAdjuster.adjust

    def watched(self: Any, q_theta: Any, *arguments: Any) -> Any:
        used.append((q_theta[0].copy(), adjust(self, q_theta, *arguments)[0]))
        return used[-1][1][None]

    monkeypatch.setattr(EphemeralValueAdjuster, "adjust", watched)
    episode = play(config, agent, WEIGHT, 0, 0.05, 60)
    return episode, used, unpack(describe(config, agent, episode, WEIGHT)), agent


def test_page_values_equal_the_agents_values(shown: tuple[PlayedEpisode, Any, Page, Any]) -> None:
    episode, used, page, _ = shown
    assert page.num_steps == len(episode.decisions) == len(used) > 5
    assert np.array_equal(page.values("qTheta"), [q_theta for q_theta, _ in used])
    assert np.array_equal(page.values("qEva"), [q_eva for _, q_eva in used])
    assert any((q_theta != q_eva).any() for q_theta, q_eva in used)
    for step in range(page.num_steps):
        mixed = page.mixed(step, WEIGHT, page.meta["numNeighbours"])
        assert np.allclose(mixed, page.values("qEva")[step], rtol=1e-5, atol=1e-6)


def test_page_memories_equal_the_explanations(shown: tuple[PlayedEpisode, Any, Page, Any]) -> None:
    episode, _, page, _ = shown
    a, num_shown = page.arrays, set()
    for step, decision in enumerate(episode.decisions):
        entries, distances = page.neighbours(step)
        neighbours = decision.explanation.neighbours
        num_shown.add(len(neighbours))
        assert np.array_equal(distances, np.array([n.distance for n in neighbours], np.float32))
        for entry, neighbour in zip(entries, neighbours, strict=True):
            begin, end = a["trajectoryOffsets"][a["entryTrajectories"][entry] :][:2]
            remembered = neighbour.trajectory
            assert a["entrySteps"][entry] == neighbour.step
            assert np.array_equal(a["trajectoryActions"][begin:end], remembered.actions)
            assert np.array_equal(a["trajectoryRewards"][begin:end], remembered.rewards)
            assert np.array_equal(a["trajectoryValues"][begin:end], remembered.backed_up.astype(np.float32))
            assert np.array_equal(a["trajectoryAges"][begin:end], remembered.ages)
            values = a["entryValues"].reshape(-1, episode.spec.num_actions)[entry]
            assert np.array_equal(values, neighbour.q_np.astype(np.float32))
    assert max(num_shown) == 2 * page.meta["numNeighbours"]


def test_each_slot_has_exactly_one_picture_of_its_observation(shown: tuple[PlayedEpisode, Any, Page, Any]) -> None:
    episode, _, page, agent = shown
    memories = Memories(each.explanation for each in episode.decisions)
    assert len(set(memories.slots.tolist())) == len(memories.slots)
    tiles = decoded(page.meta["tiles"], len(memories.slots))
    assert max(tiles.shape[1:3]) <= THUMBNAIL_SIZE
    observations = np.stack([each.observation for each in episode.decisions])
    remembered = agent.replay.observations_at(memories.slots)
    ranges = page.meta["axes"]["ranges"] if page.meta["axes"] else ()
    paint = Painter(episode.spec, np.concatenate([observations, remembered]), ranges)
    assert np.array_equal(tiles, thumbnails(paint(remembered)))
    frames = decoded(page.meta["frames"], page.num_steps)
    assert np.array_equal(frames, np.array([d.picture for d in episode.decisions]) if ranges else paint(observations))

    a = page.arrays
    for trajectory, (begin, end) in enumerate(zip(a["shownOffsets"][:-1], a["shownOffsets"][1:], strict=True)):
        length = np.diff(a["trajectoryOffsets"])[trajectory]
        steps = a["shownSteps"][begin:end].tolist()
        assert len(steps) == len(set(steps)) == min(length, MAX_THUMBNAILS)
        assert (steps[0], steps[-1]) == (0, length - 1)
    for step, decision in enumerate(episode.decisions):
        entries, _ = page.neighbours(step)
        for entry, n in zip(entries, decision.explanation.neighbours, strict=True):
            assert memories.slots[a["entryTiles"][entry]] == n.trajectory.slots[n.step]
            begin, end = a["shownOffsets"][a["entryTrajectories"][entry] :][:2]
            tiles_shown = memories.slots[a["shownTiles"][begin:end]]
            assert np.array_equal(tiles_shown, n.trajectory.slots[a["shownSteps"][begin:end]])


def decoded(described: dict[str, Any], num: int) -> np.ndarray:
    """Return the pictures of sprite sheets, decoded by Pillow."""
    height, width, columns = described["height"], described["width"], described["columns"]
    found = []
    for file in described["files"]:
        with Image.open(io.BytesIO(b64decode(file))) as image:
            sheet = np.asarray(image)
        sheet = sheet.reshape(*sheet.shape[:2], -1)
        rows = len(sheet) // height
        found += [sheet[r * height :, c * width :][:height, :width] for r, c in np.ndindex(rows, columns)]
    return np.array(found[:num])


@given(data=st.data(), num=st.sampled_from([1, 16, 17, 256, 257]), channels=st.sampled_from([1, 3]))
def test_sheets_are_lossless(data: st.DataObject, num: int, channels: int) -> None:
    height, width = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    tile = data.draw(arrays(np.uint8, (height, width, channels)))
    pictures = (tile + np.arange(num)[:, None, None, None]).astype(np.uint8)
    assert np.array_equal(decoded(sheets(pictures), num), pictures)


def test_pictures_show_the_newest_frame_of_an_observation() -> None:
    generator = np.random.default_rng(0)

    def paint(shape: tuple[int, ...], num_stacked: int = 1) -> tuple[np.ndarray, np.ndarray]:
        seen = generator.integers(256, size=(3, *shape)).astype(np.uint8)
        spec = EnvironmentSpec(1, 2, shape, np.dtype(np.uint8), num_stacked=num_stacked)
        return seen, Painter(spec, seen)(seen)

    seen, painted = paint((9, 15, 3))
    assert np.array_equal(painted, seen)
    seen, painted = paint((4, 84, 84), num_stacked=4)
    assert np.array_equal(painted[..., 0], seen[:, -1])
    means = seen[:, -1].reshape(3, 42, 2, 42, 2).mean(axis=(2, 4)).round()
    assert np.array_equal(thumbnails(painted)[..., 0], means)
    seen, painted = paint((3, 20, 30))
    assert np.array_equal(painted, np.moveaxis(seen, 1, 3))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(9, 8, 4), (9, 8, 2), (5, 9, 8), (10, 10, 10)])
def test_other_numbers_of_channels_have_a_colour_each(shape: tuple[int, ...], dtype: Any) -> None:
    """A pixel has the colour of its largest value, of the last one if several are equal."""
    seen = (np.random.default_rng(0).integers(5, size=(3, *shape)) * 51).astype(dtype)
    painted = Painter(EnvironmentSpec(1, 2, shape, np.dtype(dtype)), seen)(seen)
    images = seen if is_channels_last(shape) else np.moveaxis(seen, 1, 3)
    num = images.shape[3]
    colours = channel_colours(num)
    assert len(set(map(bytes, colours))) == num
    assert painted.shape == (*images.shape[:3], 3)
    low = 0 if dtype == np.uint8 else images.min()
    high = 255 if dtype == np.uint8 else images.max()
    for place in np.ndindex(images.shape[:3]):
        values = images[place].tolist()
        c = max(range(num), key=lambda i: (values[i], i))
        expected = np.round(colours[c] * ((values[c] - low) / (high - low)))
        assert np.abs(painted[place] - expected).max() <= 1


def test_planes_are_coloured_and_named() -> None:
    spec = EnvironmentSpec(1, 2, (10, 10, 3), np.dtype(np.uint8), plane_names=("ball", "the_paddle", "brick"))
    seen = np.zeros((1, 10, 10, 3), np.uint8)
    seen[0, 0, 0, 0] = seen[0, 0, 1, 1] = seen[0, 0, 2, 2] = 1
    painted = Painter(spec, seen)(seen)[0, 0, :4]
    assert ["#" + bytes(pixel).hex() for pixel in painted] == [*legend(spec).values(), "#000000"]
    assert list(legend(spec)) == ["ball", "the paddle", "brick"]
    assert legend(EnvironmentSpec(1, 2, (9, 8, 3), np.dtype(np.uint8))) == {}


def test_vectors_are_bars_scaled_from_minimum_to_maximum() -> None:
    seen = np.array([[0.0, -5.0], [0.5, 5.0], [1.0, 5.0]], np.float32)
    spec, ranges = EnvironmentSpec(1, 2, (2,), np.dtype(np.float32)), [(0, 1), (-5, 5)]
    pictures = Painter(spec, seen, ranges)(seen)
    heights = (pictures[..., 0] == 200).sum(axis=1)
    assert heights[:, [0, -1]].tolist() == [[0, 0], [21, 42], [42, 42]]
    assert (np.diff(pictures[1, :, 0, 0].astype(int)) >= 0).all(), "bars start at the bottom"
    none = Painter(spec, seen, ranges)(seen[:0])
    assert none.shape == (0, *pictures.shape[1:]), "an empty batch keeps its shape"


def test_vectors_have_the_rendered_picture_and_named_axes(runs: dict[str, Path]) -> None:
    """The first state, drawn by Gymnasium itself, and the numbers of all states."""
    config, agent = load_run(runs["vector"])
    episode = play(config, agent, WEIGHT, 0, 0.05, 5)
    page = unpack(describe(config, agent, episode, WEIGHT))
    assert page.meta["isRendered"]
    names = ("cart position", "cart velocity", "pole angle", "pole angular velocity")
    assert page.meta["axes"]["names"] == names
    assert page.meta["axes"]["bounded"] == (True, False, True, False)
    assert np.allclose(page.meta["axes"]["ranges"][0], (-4.8, 4.8))
    observations = np.stack([each.observation for each in episode.decisions])
    seen = np.concatenate([observations, page.arrays["tileObservations"].reshape(-1, 4)])
    assert np.allclose(page.meta["axes"]["ranges"][1], (seen[:, 1].min(), seen[:, 1].max()))
    assert np.array_equal(page.arrays["observations"].reshape(-1, 4), observations)
    environment = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    environment.reset()
    environment.unwrapped.state = observations[2]  # type: ignore[attr-defined]
    drawn = np.asarray(environment.render())
    shrunk = drawn[:399].reshape(133, 3, 200, 3, 3).mean(axis=(1, 3))
    assert np.abs(decoded(page.meta["frames"], 5)[2] - shrunk).max() <= 0.5


def test_rendered_pictures_shrink_until_they_fit_the_page() -> None:
    noise = np.random.default_rng(0).integers(256, size=(40, 133, 200, 3), dtype=np.uint8)
    assert limited_sheets(noise, 10**8) == sheets(noise)
    small = limited_sheets(noise, 10**6)
    assert (small["width"], small["height"]) == (50, 33)
    assert sum(map(len, small["files"])) < 10**6
    least = limited_sheets(noise, 1)
    assert least["width"] <= THUMBNAIL_SIZE, "it ends"


def test_vectors_without_a_picture_are_bars_with_numbers(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Any) -> None:
        raise gymnasium.error.DependencyNotInstalled("no pygame")

    monkeypatch.setattr("gymnasium.envs.classic_control.CartPoleEnv.render", broken)
    config, agent = load_run(runs["vector"])
    page = unpack(describe(config, agent, play(config, agent, WEIGHT, 0, 0.05, 3), WEIGHT))
    assert not page.meta["isRendered"]
    assert page.meta["frames"]["height"] == THUMBNAIL_SIZE
    assert len(page.meta["axes"]["names"]) == 4


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # importing Box2D under "error" crashes
@pytest.mark.parametrize("name", NAMES)
def test_documented_names_fit_their_environments(name: str) -> None:
    known = [spec for spec in gymnasium.registry if spec.rpartition("-v")[0] == name]
    environment = gymnasium.make(max(known))
    assert environment.observation_space.shape == (len(NAMES[name]),)
    environment.close()


def test_axes_of_unknown_environments_are_numbers() -> None:
    spec = EnvironmentSpec(1, 2, (2,), np.dtype(np.float32), observation_bounds=((0, 1), (-math.inf, 3)))
    found = axes(spec, "mine:Walk-v0", np.array([[0.5, 2.0], [0.6, 2.0]]))
    assert found.names == ("0", "1")
    assert found.ranges == ((0.0, 1.0), (1.5, 2.5))
    assert found.bounded == (True, False)


def test_float_images_are_scaled_to_bytes() -> None:
    seen = np.linspace(-1, 1, 2 * 9 * 8 * 3, dtype=np.float32).reshape(2, 9, 8, 3)
    pictures = Painter(EnvironmentSpec(1, 2, (9, 8, 3), np.dtype(np.float32)), seen)(seen)
    assert np.array_equal(pictures, np.round((seen + 1) / 2 * 255))


def test_plane_matches_principal_components() -> None:
    generator = np.random.default_rng(1)
    points = generator.normal(size=(50, 6)) * [5, 3, 1, 1, 0.5, 0.1] + 7
    plane = Plane(points)
    centred = points - points.mean(axis=0)
    _, lengths, directions = np.linalg.svd(centred, full_matrices=False)
    assert np.allclose(np.abs(plane(points)), np.abs(centred @ directions[:2].T))
    assert math.isclose(plane.explained, (lengths[:2] ** 2).sum() / (lengths**2).sum())
    assert Plane(points[:, :1])(points[:, :1]).shape == (50, 2)
    assert np.array_equal(Plane(points[:1])(points[:1]), [[0, 0]])


@pytest.mark.parametrize("num", [7, 30_000])
def test_map_samples_the_memory_evenly(num: int) -> None:
    replay = SimpleNamespace(complete=np.arange(2 * num) % 2 == 1)
    slots = sample_slots(replay)
    assert len(slots) == min(num, 2_000)
    assert (slots[0], slots[-1]) == (1, 2 * num - 1)
    assert (slots % 2 == 1).all()
    assert np.ptp(np.diff(slots)) <= 2


def test_episode_equals_the_first_one_of_evaluate(runs: dict[str, Path], tmp_path: Path) -> None:
    for seed in (0, 3):
        (played,) = evaluate(runs["maze"], [WEIGHT], 1, seed=seed)
        page = read_page(inspect_run(runs["maze"], weight=WEIGHT, seed=seed, out=tmp_path / "page.html").html)
        assert page.num_steps == played.episode_lengths[0]
        assert math.isclose(page.arrays["rewards"].sum(dtype=float), played.episode_returns[0], rel_tol=1e-5)
        changed_steps = page.values("qTheta").argmax(axis=1) != page.values("qEva").argmax(axis=1)
        assert played.changed_share == pytest.approx(changed_steps.mean())


def test_command_writes_one_self_contained_page(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    run = runs["maze"]
    arguments = ["inspect", str(run), "--max-steps", "9"]
    assert main(arguments) == 0
    summary, place = capsys.readouterr().out.splitlines()
    assert summary.startswith("Seed 0, weight 0.4: 9 decisions, cut short, return -0.09; the memory changed ")
    assert place == str(run / "inspect.html")
    assert opened == []
    text = (run / "inspect.html").read_text()
    assert not re.search(r"https?:|<link|<iframe|@import|\ssrc=", text)
    assert "replay.replay_capacity</dt><dd>500<" in text

    monkeypatch.setenv("DISPLAY", ":0")
    assert main([*arguments, "--no-open"]) == 0
    assert opened == []
    assert main(arguments) == 0
    assert opened == [(run / "inspect.html").resolve().as_uri()]


def test_weight_zero_recalls_nothing(runs: dict[str, Path], tmp_path: Path) -> None:
    page = read_page(inspect_run(runs["pong"], weight=0.0, max_steps=8, out=tmp_path / "new" / "page.html").html)
    assert page.num_steps == 8
    assert np.array_equal(page.values("qTheta"), page.values("qEva"))
    assert len(page.arrays["neighbourEntries"]) == 0
    assert page.meta["tiles"]["files"] == []
    assert page.meta["actionNames"] == ["noop", "fire", "right", "left", "right fire", "left fire"]


@pytest.mark.parametrize("flags", [["--weight", "1.5"], ["--seed", "-1"], ["--max-steps", "0"], ["--epsilon", "2"]])
def test_out_of_range_options_are_rejected(
    flags: list[str], runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "inspect with weight and epsilon from 0 to 1" in refused(["inspect", str(runs["maze"]), *flags], capsys)


def test_damaged_or_missing_runs_are_rejected(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is no run directory" in refused(["inspect", str(tmp_path)], capsys)
    run = tmp_path / "damaged"
    shutil.copytree(runs["maze"], run)
    (run / "memory.safetensors").write_bytes((run / "memory.safetensors").read_bytes()[:-10])
    assert "cannot read" in refused(["inspect", str(run)], capsys)
    (run / "memory.safetensors").write_bytes((run / "policy.safetensors").read_bytes())
    with Folder(run) as folder:
        write_manifest(folder, ["config.json", "policy.safetensors", "memory.safetensors"])
    assert "does not fit its config.json" in refused(["inspect", str(run)], capsys)


def test_unwritable_out_is_rejected_before_the_episode_is_played(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eva.inspect.page.play", None)
    config = runs["maze"] / "config.json"
    before = config.read_bytes()
    for out, message in (
        (config, "is not an HTML page"),
        (tmp_path, "is not an HTML page"),
        (config / "page.html", "cannot write"),
        (tmp_path / ("x" * 300), "cannot write"),
    ):
        assert message in refused(["inspect", str(runs["maze"]), "--out", str(out)], capsys)
    assert config.read_bytes() == before
    assert list(tmp_path.iterdir()) == []


def test_existing_page_is_replaced(runs: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "new folder" / "my page.html"
    for max_steps in (3, 1):
        assert inspect_run(runs["maze"], max_steps=max_steps, out=out).html == out
        assert read_page(out).num_steps == max_steps
    assert [path.name for path in out.parent.iterdir()] == ["my page.html"]


def test_report_links_to_the_page(runs: dict[str, Path], tmp_path: Path) -> None:
    run = trained(changed(MAZE, steps=300), tmp_path / "a run")
    link = re.compile(r'<a href="([^"]*)"')
    assert link.findall(write_report([run], tmp_path / "report").html.read_text()) == []
    inspect_run(run, max_steps=3)
    assert link.findall(write_report([run], tmp_path / "report").html.read_text()) == ["../a%20run/inspect.html"]
    assert link.findall(write_report([run]).html.read_text()) == ["inspect.html"]
