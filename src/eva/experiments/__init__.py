"""The paper's experiments: for each figure what is run, and how it is judged."""
