"""eva presets."""

from dataclasses import dataclass

from eva.cli.parsing import parse
from eva.presets import PRESETS


@dataclass(frozen=True)
class Presets:
    """List the named configurations."""


def main(arguments: list[str]) -> None:
    """Print the presets, one per line."""
    parse(Presets, arguments)
    for name, (config, description) in PRESETS.items():
        print(f"{name:14} {description}; {config.steps:,} transitions")
