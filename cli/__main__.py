"""``python -m kvsim.cli``: the same as the console script."""

import sys

from kvsim.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
