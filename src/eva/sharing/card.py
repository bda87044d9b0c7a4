"""Write a folder for the Hugging Face Hub: model card, agent, video and inspector page of a finished run."""

import json
import shutil
from pathlib import Path

import jinja2

from eva.build import EnvironmentFactory, NetworkSource
from eva.config import EVALUATION_EPSILON, Config, parse_config
from eva.digests import write_manifest
from eva.errors import UserError
from eva.files import READING, Folder, as_user_errors, open_folder, read_file, write_whole
from eva.ids import ATARI_ID
from eva.inspect.page import inspect_run
from eva.runs.evaluate import evaluate
from eva.runs.record.columns import INSPECTOR_PAGE
from eva.runs.record.episodes import Evaluation
from eva.runs.record.status import read_status

LIBRARY = "ephemeral-value-adjustments"
VIDEO = "replay.mp4"  # the Hub shows a file of this name on the page of a model
_AGENT = ("config.json", "policy.safetensors", "memory.safetensors", "status.json")
"""A finished run: `load_run`, `eva evaluate` and `eva inspect` accept the folder."""


def card(
    run: Path | str,
    out: Path | str,
    *,
    num_episodes: int = 100,
    seed: int = 0,
    epsilon: float = EVALUATION_EPSILON,
    video: bool = True,
    network: NetworkSource | None = None,
    environment: EnvironmentFactory | None = None,
) -> Path:
    """Evaluate a finished run and write its model card, and all files that belong to it, to the folder `out`.

    Files of an earlier card are replaced, others are kept. Returns the path of the card, README.md. `num_episodes`,
    `seed` and `epsilon` are those of `evaluate`; video and inspector page show the first of these episodes. A run with
    a network or an environment of your own needs it again.
    """
    run, out = Path(run), Path(out)
    config = _config(run)
    _check_free(run, out)
    if (state := read_status(run).state) != "finished":  # it has no policy yet, or that of an earlier finish
        raise UserError(f"the run in {run} is not finished (its state is {state}): finish it with 'eva train'.")
    weight = config.eva.nonparametric_weight
    weights = sorted({0.0, weight})
    film = out / VIDEO if video else None
    played = evaluate(
        run, weights, num_episodes, seed=seed, epsilon=epsilon, video=film, network=network, environment=environment
    )
    inspect_run(
        run,
        weight=weight,
        seed=seed,
        epsilon=epsilon,
        out=out / INSPECTOR_PAGE,
        network=network,
        environment=environment,
    )
    _copy(run, out)
    text = _render(config, played, seed=seed, video=VIDEO if video else None)
    write_whole(out / "README.md", text.encode())  # last: it marks a complete folder
    return out / "README.md"


def _config(run: Path) -> Config:
    try:
        return parse_config(run / "config.json", read_file(run / "config.json"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{run} is no run directory ({error}): give one that 'eva train' wrote.") from None


def _check_free(run: Path, out: Path) -> None:
    """Raise UserError unless `out` is new, empty, or holds an earlier card."""
    with as_user_errors(out):
        if out.exists() and not out.is_dir():
            raise UserError(f"{out} is a file: choose a folder.")
        names = {path.name for path in out.iterdir()} if out.exists() else set()
        is_card = "README.md" in names and f'library_name: "{LIBRARY}"'.encode() in read_file(out / "README.md")
        is_run = out.exists() and out.samefile(run)
    if is_run or (names - {".git", ".gitattributes"} and not is_card):
        raise UserError(f"{out} is not empty and holds no model card: choose another folder.")


def _copy(run: Path, out: Path) -> None:
    """Copy the agent, and write the checksums of the copies."""
    with as_user_errors(out), Folder(run) as source, open_folder(out) as target:
        for name in _AGENT:
            with as_user_errors(run / name, READING):
                file = source.open(name)
            with file, target.drafting(name) as draft, target.open(draft, "xb") as copy:
                shutil.copyfileobj(file, copy)
        write_manifest(target, _AGENT[:3])


def _render(config: Config, played: list[Evaluation], *, seed: int, video: str | None) -> str:
    own = played[-1]
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("eva.sharing", "."),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    templates.filters["quoted"] = lambda text: json.dumps(str(text), ensure_ascii=False)  # JSON strings are YAML
    environment_id = config.environment.id
    task = f"{environment_id} ({config.atari.game})" if environment_id == ATARI_ID else environment_id
    return templates.get_template("card.md.j2").render(
        config=config,
        library=LIBRARY,
        task=task,
        own=own,
        played=played,
        reward=reward,
        seed=seed,
        video=video,
        inspector=INSPECTOR_PAGE,
    )


def reward(played: Evaluation) -> str:
    """Return mean and standard deviation of the returns, as the Hub writes them."""
    returns = played.episode_returns
    return f"{returns.mean():.2f} +/- {returns.std():.2f}"
