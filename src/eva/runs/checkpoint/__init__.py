"""Checkpoints: when to save (policy), what (state) and how (store, format)."""
