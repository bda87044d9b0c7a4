"""`python -m eva`."""

import sys

from eva.cli.main import main

sys.exit(main())
