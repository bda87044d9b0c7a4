"""Tests of the package; `tests.reference` holds the oracles."""
