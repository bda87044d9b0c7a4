"""`python -m eva`."""

import sys

from eva.cli import main

sys.exit(main())
