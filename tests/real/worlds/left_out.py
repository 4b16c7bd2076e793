"""Run the script that is named, on all ranks but the last, which does nothing."""

import os
import runpy
import sys
import time

sys.argv = sys.argv[1:]
if int(os.environ["RANK"]) < int(os.environ["WORLD_SIZE"]) - 1:
    runpy.run_path(sys.argv[0], run_name="__main__")
time.sleep(1)
