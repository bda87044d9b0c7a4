"""Tests of the package; `tests.helpers.reference` holds the oracles."""
