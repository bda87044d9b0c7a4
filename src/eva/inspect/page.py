"""Write `inspect.html`, a self-contained page about an episode that a trained agent plays."""

import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from eva.agent.agent import EVAAgent
from eva.agent.memory.replay import ReplayBuffer
from eva.build import EnvironmentFactory, NetworkSource
from eva.config import EVALUATION_EPSILON, MAX_INSPECTED_STEPS, Config
from eva.errors import UserError
from eva.files import Folder, as_user_errors, check_writable, write_whole
from eva.inspect.axes import axes
from eva.inspect.episode import PlayedEpisode, play
from eva.inspect.memories import Memories, floats, integers
from eva.inspect.pictures import Painter, limited_sheets, sheets, thumbnails
from eva.report.style import STYLE
from eva.runs.loading import load_run
from eva.runs.pictures import legend
from eva.runs.record.columns import INSPECTOR_PAGE
from eva.schema import flatten
from eva.types import Floats, Ints

MAX_POINTS = 2_000  # of the memory, on the map
DOCTYPE = b"<!DOCTYPE html>"


@dataclass(frozen=True)
class Inspection:
    """The page's path, and its content in one sentence."""

    html: Path
    summary: str


def inspect_run(
    run: Path | str,
    *,
    weight: float | None = None,
    seed: int = 0,
    epsilon: float = EVALUATION_EPSILON,
    max_steps: int = MAX_INSPECTED_STEPS,
    out: Path | None = None,
    network: NetworkSource | None = None,
    environment: EnvironmentFactory | None = None,
) -> Inspection:
    """Play an episode with a trained agent and write the page that explains its decisions.

    The episode is the first that `evaluate` plays with this seed (P105), cut short after `max_steps` decisions. By
    default, the weight of Q_NP is the run's own, and the page is `inspect.html` in the run directory. A run with a
    network or an environment of your own needs it again.
    """
    run = Path(run)
    if not 0 <= epsilon <= 1 or not (weight is None or 0 <= weight <= 1) or seed < 0 or max_steps < 1:
        raise UserError("inspect with weight and epsilon from 0 to 1, a seed of at least 0, and at least 1 step.")
    config, agent = load_run(run, network=network, environment=environment)
    out = out or run / INSPECTOR_PAGE
    _check_writable(out)
    torch.set_num_threads(config.run.threads)
    weight = config.eva.nonparametric_weight if weight is None else weight
    episode = play(config, agent, weight, seed, epsilon, max_steps, environment)
    write_whole(out, _page(config, episode, weight, seed, describe(config, agent, episode, weight)).encode())
    return Inspection(out, _summary(episode, weight, seed))


def _check_writable(out: Path) -> None:
    """Raise UserError, before the episode is played, if `out` cannot be written or is another kind of file."""
    check_writable(out)
    with as_user_errors(out), Folder(out.parent) as folder:
        taken = out.is_dir()
        if folder.has(out.name) and not taken:
            with folder.open(out.name) as file:
                taken = file.read(len(DOCTYPE)) != DOCTYPE
    if taken:
        raise UserError(f"{out} exists and is not an HTML page: choose another name.")


@torch.no_grad()
def describe(config: Config, agent: EVAAgent, episode: PlayedEpisode, weight: float) -> dict[str, Any]:
    """Return the data of the page; numbers are float32, as in the agent."""
    decisions, replay = episode.decisions, agent.replay
    explanations = [each.explanation for each in decisions]
    unknown = np.full(episode.spec.num_actions, np.nan, np.float32)
    memories = Memories(explanations)
    observations = np.stack([each.observation for each in decisions])
    remembered = replay.observations_at(memories.slots)
    sample = np.concatenate([observations, remembered])
    shown = axes(episode.spec, config.environment.id, sample) if observations.ndim == 2 else None
    paint = Painter(episode.spec, sample, shown.ranges if shown else ())
    pictures = [each.picture for each in decisions if each.picture is not None]
    is_rendered = len(pictures) == len(decisions)
    names = episode.spec.action_names or tuple(f"action {a}" for a in range(episode.spec.num_actions))
    return {
        "weight": weight,
        "numNeighbours": config.eva.num_neighbours,
        "actionNames": names,
        "actions": integers([each.action for each in decisions]),
        "rewards": floats([each.reward for each in decisions]),
        "qTheta": floats([each.q_theta for each in explanations]),
        "qNp": floats([unknown if each.q_np is None else each.q_np for each in explanations]),
        "qEva": floats([each.q_eva for each in explanations]),
        **memories.tables(),
        "isRendered": is_rendered,
        "axes": shown and asdict(shown),
        "observations": floats(observations if shown else []),
        "tileObservations": floats(remembered if shown else []),
        "frames": limited_sheets(np.stack(pictures)) if is_rendered else sheets(paint(observations)),
        "tiles": sheets(thumbnails(paint(remembered))),
        **_map(agent, np.stack([each.embedding for each in decisions]), memories),
    }


class Plane:
    """A projection onto the two leading principal directions of embeddings (n, D), with deterministic signs."""

    def __init__(self, embeddings: Floats) -> None:
        self._origin = embeddings.mean(axis=0)
        centred = (embeddings - self._origin).astype(np.float64)
        variances, directions = np.linalg.eigh(centred.T @ centred)
        leading = directions[:, ::-1][:, :2]
        leading = np.pad(leading, ((0, 0), (0, 2 - leading.shape[1])))
        largest = np.abs(leading).argmax(axis=0)
        signs = np.where(np.take_along_axis(leading, largest[None], axis=0)[0] < 0, -1.0, 1.0)
        self._directions = leading * signs  # (D, 2)
        total = variances.sum()
        self.explained = float(variances[-2:].sum() / total) if total > 0 else 1.0  # share of the variance

    def __call__(self, embeddings: Floats) -> Floats:
        """Project embeddings, (n, D), to (n, 2)."""
        projected: Floats = (embeddings - self._origin) @ self._directions
        return projected


def sample_slots(replay: ReplayBuffer) -> Ints:
    """Return at most MAX_POINTS slots of complete transitions, evenly spaced in the memory (P107)."""
    complete = np.flatnonzero(replay.complete)
    return complete[np.linspace(0, len(complete) - 1, min(len(complete), MAX_POINTS)).astype(np.int64)]


def _map(agent: EVAAgent, visited: Floats, memories: Memories) -> dict[str, Any]:
    """Project a sample of the memory, the episode, and the recalled entries with their stored embeddings (P6)."""
    stored = agent.replay.embeddings
    sample = stored[torch.from_numpy(sample_slots(agent.replay)).to(stored.device)]
    values = agent.learner.network.values(sample).amax(dim=1)
    points = sample.cpu().numpy()
    plane = Plane(np.concatenate([points, visited]))
    entries = stored[torch.from_numpy(memories.entry_slots).to(stored.device)].cpu().numpy()
    return {
        "mapPoints": floats(plane(points)),
        "mapValues": floats(values.cpu().numpy()),
        "mapPath": floats(plane(visited)),
        "mapEntries": floats(plane(entries)),
        "mapExplained": plane.explained,
    }


def _summary(episode: PlayedEpisode, weight: float, seed: int) -> str:
    num = len(episode.decisions)
    end = "" if episode.ended else ", cut short"
    return (
        f"Seed {seed}, weight {weight:g}: {num:,} decision{'s' * (num != 1)}{end}, return {episode.total_return:.2f}; "
        f"the memory changed {episode.num_changed:,} of them."
    )


def _page(config: Config, episode: PlayedEpisode, weight: float, seed: int, data: dict[str, Any]) -> str:
    folder = files("eva.inspect")
    style, template, *scripts = (
        (folder / name).read_text("utf-8")
        for name in ("page.css", "page.html", "values.js", "pictures.js", "charts.js", "page.js")
    )
    return (
        Environment(autoescape=True, keep_trailing_newline=True, undefined=StrictUndefined)
        .from_string(template)
        .render(
            config=config,
            episode=episode,
            weight=weight,
            seed=seed,
            legend=legend(episode.spec),
            is_vector=len(episode.spec.observation_shape) == 1,
            is_rendered=data["isRendered"],
            style=Markup(STYLE + style),
            configuration=dict(flatten(config)),
            data=Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")),
            script=Markup("\n".join(scripts)),
        )
    )
