"""A fuzzer of run directories: `make fuzz`, and `python -m tests.fuzz --help`."""
