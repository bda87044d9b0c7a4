"""Write results/README.md, the table of all claims: python docs/generate_results.py."""

from __future__ import annotations

import json
from pathlib import Path

from eva.experiments.framework.page import all_claims

RESULTS = Path(__file__).parents[1] / "results"


def page() -> str:
    """Return the text of results/README.md."""
    return all_claims(
        {path.parent.name: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*/summary.json"))}
    )


if __name__ == "__main__":
    (RESULTS / "README.md").write_text(page())
