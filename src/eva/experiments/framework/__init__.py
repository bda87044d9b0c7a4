"""What an experiment is, and how it is run, judged and published."""
