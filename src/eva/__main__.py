"""`python -m eva`."""

import os
import sys

if sys.path[0] in ("", os.getcwd()):  # noqa: PTH109  (imports nothing that the directory could replace)
    del sys.path[0]  # the user's files must not replace modules of the standard library

from eva.cli.main import main

sys.exit(main())
