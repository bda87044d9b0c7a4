"""The replay memory: what is stored, how it is searched and sampled."""
