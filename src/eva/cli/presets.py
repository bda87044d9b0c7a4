"""eva presets."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from eva.cli.parsing import parse
from eva.presets import PRESETS, preset


@dataclass(frozen=True)
class Presets:
    """List the named configurations, or print one in full as JSON, which `eva train --config` reads."""

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[NAME]")] = None
    """Name of the configuration to print."""


def main(arguments: list[str]) -> None:
    """Print the presets, one per line, or one of them."""
    asked = parse(Presets, arguments)
    if asked.name is not None:
        print(preset(asked.name).to_json(), end="")
        return
    for name, (config, description) in PRESETS.items():
        print(f"{name:14} {description}; {config.steps:,} transitions")
