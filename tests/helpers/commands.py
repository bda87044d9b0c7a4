"""Commands that must fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from eva.cli.main import main


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must fail with a user error; returns its sentence."""
    before = sorted(Path().rglob("*"))
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("eva: ")
    assert err.endswith((".\n", "?\n"))
    assert err.count("\n") == 1, "one sentence on one line"
    assert "Traceback" not in err
    assert sorted(Path().rglob("*")) == before, "no file is written"
    return err
