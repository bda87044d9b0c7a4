"""Write docs/results.md from the summaries in results/: python docs/generate_results.py."""

from __future__ import annotations

import json
from pathlib import Path

from eva.experiments.catalogue import EXPERIMENTS
from eva.experiments.framework.page import all_claims

TARGET = Path(__file__).with_name("results.md")
RESULTS = Path(__file__).parents[1] / "results"


def page() -> str:
    """Return the text of docs/results.md."""
    summaries = {path.parent.name: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*/summary.json"))}
    return all_claims(EXPERIMENTS.values(), summaries)


if __name__ == "__main__":
    TARGET.write_text(page())
