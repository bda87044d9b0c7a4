"""The parts of a run: its complete configuration, environments, network and memory."""
