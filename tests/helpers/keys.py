"""The same keys in an index under test and in dicts."""

from __future__ import annotations

from torch import Tensor

from eva.agent.memory.neighbours import NeighbourIndex
from eva.types import Ints
from tests.helpers.reference.neighbours import Embedding, nearest


class KeysCase:
    """Do the same with an index and with dicts, and compare searches with brute force."""

    def __init__(self, index: NeighbourIndex) -> None:
        self.index = index
        self.keys: dict[int, Embedding] = {}  # by place
        self.born: dict[int, int] = {}
        self.admitted: set[int] = set()
        self.num_written = 0

    def write(self, places: Ints, keys: Tensor) -> None:
        self.index.write(places, keys)
        for place, key in zip(places.tolist(), keys.tolist(), strict=True):
            self.keys[place], self.born[place] = key, self.num_written
            self.admitted.discard(place)
            self.num_written += 1

    def admit(self, places: Ints) -> None:
        self.index.admit(places)
        self.admitted.update(places.tolist())

    def replace(self, places: Ints, keys: Tensor) -> None:
        self.index.replace(places, keys)
        self.keys.update(zip(places.tolist(), keys.tolist(), strict=True))  # a place given twice gets its last key

    def assert_brute_force(self, queries: Tensor, k: int) -> None:
        """Compare places and distances to the bit."""
        places, squared_distances = self.index.search(queries, k)
        there = sorted(self.admitted)
        keys, born = [self.keys[place] for place in there], [self.born[place] for place in there]
        expected = [nearest(keys, born, query, k) for query in queries.tolist()]
        assert places.tolist() == [[there[i] for i, _ in row] for row in expected]
        assert squared_distances.tolist() == [[distance for _, distance in row] for row in expected]
