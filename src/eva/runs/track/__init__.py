"""Trackers: callbacks that send the numbers of a run to TensorBoard, Weights & Biases or trackio."""
