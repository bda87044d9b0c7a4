"""Learning curves of all runs in a folder, with pandas: python examples/load_into_pandas.py runs."""

import sys

import pandas

import eva

for sentence in eva.export(sys.argv[1], "csv", "episodes.csv"):
    print("left out:", sentence)
episodes = pandas.read_csv("episodes.csv")  # a row for each episode, with the fields in which the runs differ

bins = pandas.cut(episodes["step"], 10, precision=0)
curves = episodes.groupby([bins, "name", "eva.nonparametric_weight"], observed=True)["episode_return"].mean()
print(curves.unstack(["name", "eva.nonparametric_weight"]).round(2))
