"""The style sheet that all pages share, and its colours for figures."""

import re
from importlib.resources import files

STYLE = (files("eva.report") / "style.css").read_text("utf-8")
LIGHT = dict(re.findall(r"--([\w-]+):(#\w{6})", STYLE.partition("@media")[0]))
"""The colours of light pages by their names in the style sheet."""
CSS_DASHES = ("solid", "dashed", "dotted", "double")
"""What lines of repeated colours look like in tables; `plots.DASHES` are those of figures."""
NUM_COLOURS = sum(name.startswith("series-") for name in LIGHT)
