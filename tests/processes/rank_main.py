"""What each rank of `ranks.run_ranks` runs: the script, with outputs of its own, and a look at where it hangs.

python -m mpi4py rank_main.py FOLDER SECONDS SCRIPT [ARGUMENT …]
"""

import faulthandler
import os
import runpy
import sys

folder, seconds, script, *arguments = sys.argv[1:]
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or "0"
for number, kind in ((1, "out"), (2, "err")):
    descriptor = os.open(os.path.join(folder, f"{rank}.{kind}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, number)
sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
faulthandler.dump_traceback_later(max(float(seconds) - 2.0, 1.0))
sys.argv = [script, *arguments]
runpy.run_path(script, run_name="__main__")
faulthandler.cancel_dump_traceback_later()
