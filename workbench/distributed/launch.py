"""`python -m workbench.distributed.launch`: start a script in several processes, as `workbench launch` does."""

import sys

from workbench.parallel.launch.main import main

if __name__ == "__main__":
    sys.exit(main(program="python -m workbench.distributed.launch"))
