"""Write the spectrum of the embeddings in a run's memory to src/eva/data/maze_spectrum.json.

The experiment `scaling` generates embeddings with this spectrum. The file also records how often a projected search of
the memory falls back to brute force, so that the generated embeddings can be compared with it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.command_line import parser
from benchmarks.search import CPU, filled
from eva.agent.memory.projected import ProjectedIndex
from eva.agent.memory.replay import EMPTY
from eva.runs.loading import load_run

TARGET = Path(__file__).resolve().parent.parent / "src" / "eva" / "data" / "maze_spectrum.json"
K, NUM_QUERIES = 10, 200
DIGITS = 9


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("run", type=Path, metavar="RUN", help="finished run directory")
    run = arguments.parse_args(argv).run
    replay = load_run(run)[1].replay
    embeddings = replay.embeddings[replay.kinds != EMPTY]
    variances = torch.linalg.eigvalsh(embeddings.double().T.cov(correction=0)).flip(0).clamp(min=0.0)
    origin = json.loads((run / "provenance.json").read_text())
    config = json.loads((run / "config.json").read_text())
    content = {
        "what": "variances of the embeddings in a replay memory along their principal directions, largest first",
        "made_by": "python -m benchmarks.spectrum RUN",
        "run": {
            "name": config["name"],
            "weight": config["eva"]["nonparametric_weight"],
            "seed": config["seed"],
            "transitions": config["steps"],
            "learning_rate": config["learner"]["learning_rate"],
            "target_period_updates": config["learner"]["target_period_updates"],
            "commit": origin["commit"],
        },
        "num_embeddings": len(embeddings),
        "fallbacks": f"{fallbacks(embeddings)} of {NUM_QUERIES}",
        "variances": [round(each, DIGITS) for each in variances.tolist()],
    }
    TARGET.write_text(json.dumps(content, indent=2) + "\n")


def fallbacks(embeddings: Tensor) -> int:
    """Return how many searches fall back to brute force, for stored states that are hidden from the search."""
    hidden = np.random.default_rng(0).choice(len(embeddings), NUM_QUERIES, replace=False)
    index = filled(ProjectedIndex(len(embeddings), embeddings.shape[1], CPU), embeddings, hidden)
    for query in embeddings[torch.from_numpy(hidden)]:
        index.search(query[None], K)
    return index.num_fallbacks


if __name__ == "__main__":
    main()
