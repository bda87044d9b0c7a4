"""`examples/quickstart.ipynb` is stored without outputs, and runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"


def read() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


def output(cell: Any) -> str:
    """Return what a cell printed and the types of what it showed."""
    return "".join(
        each.text if each.output_type == "stream" else " ".join(each.data) for each in cell.get("outputs", [])
    )


def test_notebook_is_valid_and_stored_without_outputs() -> None:
    notebook = read()
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) > 4
    assert [cell.id for cell in code if cell.outputs or cell.execution_count is not None] == []
    assert str(Path.home()) not in NOTEBOOK.read_text()


@pytest.mark.slow
def test_notebook_trains_plots_evaluates_and_explains(tmp_path: Path) -> None:
    notebook = read()
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources=resources).execute()
    shown = {cell.id: output(cell) for cell in notebook.cells}
    assert "image/png" in shown["curve"]
    assert "image/png" in shown["memories"]
    assert "text/html" in shown["inspect"]
    evaluated = re.findall(r"^weight (0\.\d): mean return (-?\d\.\d+)", shown["evaluate"], re.MULTILINE)
    assert [weight for weight, _ in evaluated] == ["0.0", "0.4"]
    assert min(float(mean_return) for _, mean_return in evaluated) > 0.5, "it learned"
    assert [line.split(":")[0].strip() for line in shown["explain"].splitlines()] == ["left", "right", "up", "down"]
    assert (tmp_path / "runs" / "notebook" / "inspect.html").exists()
