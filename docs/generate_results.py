"""Write docs/results.md from the summaries in results/: python docs/generate_results.py."""

from __future__ import annotations

import json
from pathlib import Path

from eva.experiments.catalogue import EXPERIMENTS
from eva.experiments.page import all_claims

TARGET = Path(__file__).with_name("results.md")
RESULTS = Path(__file__).parents[1] / "results"


def page() -> str:
    """Return the text of docs/results.md."""
    paths = [RESULTS / name / "summary.json" for name in EXPERIMENTS]
    return all_claims(EXPERIMENTS.values(), {p.parent.name: json.loads(p.read_text()) for p in paths if p.exists()})


if __name__ == "__main__":
    TARGET.write_text(page())
