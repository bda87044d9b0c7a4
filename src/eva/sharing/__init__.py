"""Folders that can be shared: model cards for the Hugging Face Hub."""
