"""The configuration: checks, JSON, identity, presets."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eva.config import ADDED_FIELDS, NOT_IDENTITY, Config, EVAConfig, LearnerConfig, MinAtarConfig, NetworkConfig
from eva.errors import UserError
from eva.presets import PRESETS, for_environment, preset
from eva.runs.record.directory import default_directory
from eva.schema import flatten, from_dict, to_dict


@pytest.mark.parametrize("name", PRESETS)
def test_presets_round_trip_through_json(name: str) -> None:
    config = preset(name)
    assert config.name == name
    assert Config.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            {"eva": {"nonparametric_weight": 1.3}},
            "eva.nonparametric_weight is 1.3, but must be a number between 0 and 1.",
        ),
        ({"eva": {"nonparametric_weight": float("nan")}}, "eva.nonparametric_weight is nan"),
        ({"eva": {"nonparametric_weight": "0.4"}}, "eva.nonparametric_weight is '0.4', but must be a number"),
        ({"eva": {"nonparametric_weight": True}}, "eva.nonparametric_weight is True"),
        ({"eva": {"trace": "tpc"}}, "eva.trace is 'tpc', but must be one of 'tcp', 'n-step', 'kbrl'."),
        ({"eva": {"anneal_start_transitions": -1}}, "of at least 0 or null"),
        ({"eva": {"plan_at_episode_start": 1}}, "must be true or false"),
        ({"eva": {"num_neighbours": 5, "value_buffer_capacity": 4}}, "value_buffer_capacity is 4"),
        ({"seed": 1.5}, "seed is 1.5, but must be a whole number of at least 0."),
        ({"steps": 0}, "steps is 0"),
        ({"learner": {"learning_rate": 0}}, "learner.learning_rate is 0, but must be a number above 0."),
        ({"network": {"channels": [16, "32"]}}, "must be a list of whole numbers of at least 1."),
        ({"network": {"channels": [16]}}, "must be of equal length."),
        ({"network": 3}, "network must be a group of fields, not 3."),
        ({"replay": {"replay_capacity": 1}}, "replay.replay_capacity must be at least 2"),
        ({"replay": {"priority_floor": 0.0}}, "replay.priority_floor is 0.0, but must be a number above 0."),
        ({"learner": {"learning_rate": 10**400}}, "but must be a number above 0."),
        ({"eva": {"kbrl_bandwidth": 1e-200}}, "but must be a number between 1e-100 and 1e100."),
        ({"run": {"threads": 5_000}}, "run.threads is 5000, but must be a whole number between 0 and 1024."),
        ({"name": "../elsewhere"}, "name is '../elsewhere', but must be text that can name a directory."),
        ({"name": "a\0b"}, "must be text that can name a directory"),
        ({"name": "x" * 201}, "must be text that can name a directory"),
        ({"sed": 1}, "there is no field sed: did you mean 'seed'?"),
        ({"eva": {"num_neighbors": 5}}, "there is no field eva.num_neighbors: did you mean 'num_neighbours'?"),
    ],
)
def test_bad_values_raise_an_error_that_names_the_field(data: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        from_dict(Config, data)
    assert sentence in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5_000])
def test_invalid_json_raises(text: str) -> None:
    with pytest.raises(UserError, match="not JSON"):
        Config.from_json(text)


def test_to_dict_is_plain_json() -> None:
    data = to_dict(Config())
    assert json.loads(json.dumps(data)) == data
    assert dict(flatten(Config()))["eva.nonparametric_weight"] == 0.4


def test_integers_in_float_fields_give_the_same_json() -> None:
    config = preset("smoke")
    whole, real = (replace(config, eva=replace(config.eva, nonparametric_weight=weight)) for weight in (1, 1.0))
    assert whole.to_json() == real.to_json()
    assert replace(config, run=replace(config.run, checkpoint_period_minutes=2)).to_json().count("2.0") == 1
    assert to_dict(config)["seed"].__class__ is int


def test_identity_excludes_length_and_device() -> None:
    config = preset("smoke")
    longer = replace(config, steps=2 * config.steps, run=replace(config.run, device="cpu"))
    assert longer.identity == config.identity
    assert replace(config, seed=1).identity != config.identity


def test_identity_holds_every_field_that_is_not_excluded() -> None:
    kept = {name for name, _ in flatten(Config()) if not name.startswith(NOT_IDENTITY) and name not in ADDED_FIELDS}
    assert {"seed", "eva.trace", "run.threads"} <= kept
    assert not {"steps", "evaluation.seed", "run.checkpoints_kept"} & kept
    held = {
        f"{group}.{name}" for group, value in Config().identity.items() if isinstance(value, dict) for name in value
    }
    assert held | {"name", "seed"} == kept


def test_older_configurations_are_of_the_same_run() -> None:
    """They do not have the fields that were added since."""
    config = preset("smoke")
    older = json.loads(config.to_json())
    for path, value in ADDED_FIELDS.items():
        group, _, name = path.partition(".")
        assert older[group].pop(name) == to_dict(Config())[group][name]
        assert dict(flatten(Config()))[path] == value
        assert name not in config.identity.get(group, {})
    older = {group: fields for group, fields in older.items() if fields != {}}
    assert Config.from_json(json.dumps(older)) == config
    other = replace(config, minatar=MinAtarConfig(max_episode_steps=100))
    assert other.identity["minatar"] == {"max_episode_steps": 100}
    assert other.settings_hash() != config.settings_hash()


def test_default_directory_hashes_all_settings_but_name_weight_and_seed() -> None:
    base = preset("maze-1-coin")
    assert default_directory(base, base) == Path("runs/maze-1-coin/weight-0.4/seed-0")
    same_settings = replace(base, seed=3, steps=7, eva=replace(base.eva, nonparametric_weight=0.0))
    assert default_directory(same_settings, base) == Path("runs/maze-1-coin/weight-0/seed-3")
    changed = replace(base, eva=EVAConfig(num_neighbours=3))
    name = default_directory(changed, base).parts[1]
    assert name == f"maze-1-coin-{changed.settings_hash()}"
    assert len(changed.settings_hash()) == 8
    other = replace(base, learner=LearnerConfig(batch_size=32), network=NetworkConfig())
    assert other.settings_hash() != changed.settings_hash()


def test_environments_without_a_preset_use_the_defaults() -> None:
    config = for_environment("a/Game-v0")
    assert (config.name, config.environment.id) == ("a-Game-v0", "a/Game-v0")


def test_unknown_preset_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match=r"there is no preset .maze-1-coins.: did you mean .maze-1-coin.\?"):
        preset("maze-1-coins")


def test_settings_hash_keeps_its_definition() -> None:
    """The names of existing run directories contain it."""
    settings = json.loads(Config().to_json())
    del settings["name"], settings["seed"], settings["steps"], settings["eva"]["nonparametric_weight"]
    del settings["evaluation"], settings["minatar"], settings["eva"]["embeddings"], settings["learner"]["precision"]
    later = {"environment": ("kwargs", "wrappers"), "network": ("fit_images", "factory", "fingerprint")}
    for group, names in later.items():
        for name in names:
            del settings[group][name]
    settings["run"] = {name: settings["run"][name] for name in ("threads", "metrics_period_transitions")}
    text = json.dumps(settings, sort_keys=True)
    assert Config().settings_hash() == hashlib.sha256(text.encode()).hexdigest()[:8]
    assert preset("smoke").settings_hash() == "a4e9f95a"
    assert for_environment("CartPole-v1").settings_hash() == "9f36a121"


def test_numbers_of_numpy_become_those_of_python() -> None:
    learner = LearnerConfig(batch_size=np.int16(32), learning_rate=np.float32(0.5), discount=np.int64(1))
    network = NetworkConfig(channels=(np.int64(4), 8), filter_sizes=(3, np.uint8(3)))
    config = Config(steps=np.int64(1_000), seed=np.uint64(2**62), learner=learner, network=network)
    plain = replace(
        Config(),
        steps=1_000,
        seed=2**62,
        learner=LearnerConfig(batch_size=32, learning_rate=0.5, discount=1),
        network=NetworkConfig(channels=(4, 8), filter_sizes=(3, 3)),
    )
    assert config.to_json() == plain.to_json()
    assert {type(config.steps), type(config.learner.batch_size), *map(type, config.network.channels)} == {int}
    assert Config.from_json(config.to_json()) == config


@pytest.mark.parametrize("steps", [np.int64(0), np.float64(2.5), np.bool_(True), np.array([1])], ids=repr)
def test_other_numbers_of_numpy_are_no_counts(steps: Any) -> None:
    with pytest.raises(UserError, match=r"steps is .* but must be a whole number of at least 1"):
        Config(steps=steps)
