from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eva.envs.maze_dynamics import random_return
from eva.envs.maze_layout import LAYOUTS, MazeLayout, load_layout, optimal_return
from eva.errors import UserError
from tests.helpers.reference.maze import MOVES, free_cells, mean_optimal_return, mean_random_return, move

TINY_MAPS = ["...\n", "..\n..\n", ".#.\n...\n", "....\n.##.\n....\n", "..#.\n#...\n..#.\n", ".....\n"]


@pytest.mark.parametrize(("name", "num_coins", "count"), [("paper", 1, 3422), ("paper", 2, 195_054), ("open", 1, 4160)])
def test_named_layouts_have_the_papers_state_counts(name, num_coins, count):
    assert math.perm(len(load_layout(name).positions), 1 + num_coins) == count


def test_paper_layout_has_two_pillars_and_59_cells():
    pillars = "..#.......#.."
    layout = load_layout("paper")
    assert layout.rows == ("." * 13, pillars, pillars, pillars, "." * 13)
    assert layout.walls.shape == (7, 15)
    assert layout.walls[[0, -1]].all()
    assert layout.walls[:, [0, -1]].all()
    assert (~layout.walls[1:-1, 1:-1]).sum() == 59


def test_layout_loads_from_name_file_or_text(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(LAYOUTS["paper"])
    paper = load_layout("paper")
    assert load_layout(str(path)) == load_layout(LAYOUTS["paper"]) == load_layout(paper) == paper
    assert load_layout("\n   ..#\r\n   ...\n  ").rows == ("..#", "...")
    assert load_layout("...\n").rows == ("...",)


@pytest.mark.parametrize("text", [*TINY_MAPS, *LAYOUTS.values()])
def test_cells_and_successors_agree_with_the_map(text):
    layout = load_layout(text)
    cells = free_cells(list(layout.rows))
    assert [tuple(position) for position in layout.positions.tolist()] == cells
    assert [layout.cell_at(*cell) for cell in cells] == list(range(len(cells)))
    for number, cell in enumerate(cells):
        for action in MOVES:
            assert cells[layout.successors[number, action]] == move(set(cells), cell, action)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("...\n..\n", "equally long"),
        ("...\n\n...\n", "equally long"),
        ("..x\n...\n", "not 'x'"),
        (". .\n...\n", "not ' '"),
        ("\n", "at least one free cell"),
        ("##\n##\n", "at least one free cell"),
        (".#.\n.#.\n", "Connect all free cells"),
    ],
)
def test_invalid_map_raises(text, advice):
    with pytest.raises(UserError, match=advice) as caught:
        load_layout(text)
    assert str(caught.value).endswith(".")


def test_unknown_layout_raises_with_nearest_name(tmp_path):
    with pytest.raises(UserError, match="did you mean 'paper'"):
        load_layout("papper")
    for absent in ("zzzzzz", str(tmp_path), "z" * 5000, "z\0"):
        with pytest.raises(UserError, match="choose from open, paper"):
            load_layout(absent)


def test_binary_file_raises(tmp_path):
    path = tmp_path / "map.bin"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="Use only '#'"):
        load_layout(str(path))


@pytest.mark.parametrize("cell", [(-1, 0), (0, -1), (2, 0), (0, 3), (0, 1)])
def test_cell_at_raises_for_walls_and_outside(cell):
    with pytest.raises(UserError, match="Choose a free cell of the 2 x 3 maze"):
        load_layout(".#.\n...\n").cell_at(*cell)


def test_optimal_return_by_hand_in_a_corridor():
    corridor = load_layout("...\n")
    assert optimal_return(corridor, 1) == pytest.approx(1 - 0.01 * (1 + 2 + 1 + 1 + 2 + 1) / 6)
    assert optimal_return(corridor, 2) == pytest.approx(2 - 0.01 * (2 + 3 + 2) / 3)


@pytest.mark.parametrize("text", TINY_MAPS)
def test_optimal_return_matches_search_of_full_state_space(text):
    layout = load_layout(text)
    for num_coins in range(1, min(len(layout.positions), 5)):
        expected = mean_optimal_return(list(layout.rows), num_coins)
        assert optimal_return(layout, num_coins) == pytest.approx(expected, abs=1e-12)


def test_optimal_return_of_the_published_mazes():
    assert optimal_return(load_layout("open"), 1) == pytest.approx(0.94)  # the mean distance is 6 steps
    assert optimal_return(load_layout("paper"), 1) == pytest.approx(
        mean_optimal_return(list(load_layout("paper").rows), 1)
    )
    assert optimal_return(load_layout("paper"), 4) == pytest.approx(3.8297939891171)  # many chunks of coin sets


def test_optimal_return_is_none_for_large_mazes():
    assert optimal_return(load_layout("paper"), 5) is None
    assert optimal_return(load_layout("\n".join(["." * 60] * 60)), 1) is None


@pytest.mark.parametrize("text", TINY_MAPS)
def test_random_return_matches_exact_expectation(text):
    layout = load_layout(text)
    for num_coins in range(1, min(len(layout.positions), 4)):
        expected = mean_random_return(list(layout.rows), num_coins, 12)
        assert random_return(layout, num_coins, 12) == pytest.approx(expected, abs=0.04)  # 4 standard errors or more


def test_random_return_of_the_published_mazes():
    paper = load_layout("paper")
    assert random_return(paper, 1, 60) == pytest.approx(mean_random_return(list(paper.rows), 1, 60), abs=0.03)
    assert random_return(paper, 2, 2_501) is None, "it might take long"
    assert random_return(paper, 11, 500) is None
    assert random_return(load_layout("\n".join(["." * 34] * 30)), 1, 10) is None


@pytest.mark.parametrize("num_coins", [-1, 0, 3])
def test_optimal_return_raises_for_invalid_number_of_coins(num_coins):
    with pytest.raises(UserError, match="between 1 and 2 coins"):
        optimal_return(load_layout("...\n"), num_coins)


def test_equal_layouts_have_equal_hashes():
    assert hash(load_layout("open")) == hash(MazeLayout(("." * 13,) * 5))
    assert np.array_equal(load_layout("open").pixels, MazeLayout(("." * 13,) * 5).pixels)


def test_layouts_import_neither_gymnasium_nor_torch():
    program = "import sys, eva.envs.maze_layout; sys.exit(bool({'torch', 'gymnasium'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_pipes_and_devices_are_not_read_as_maps(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "map")
    with pytest.raises(UserError, match="No layout or map file is called"):
        load_layout(str(tmp_path / "map"))
