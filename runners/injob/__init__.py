"""What runs within a job. It is copied into the run's folder, and uses the standard library only.

No room of the host imports it. What both know is in `runners/contract`, which is copied along.
"""

import os

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "injob":
    # In a job this package is its own parent: `injob.injob.rank` finds `...contract` below `injob`,
    # as `runners.injob.rank` finds it below `runners`.
    __path__ = [HERE, os.path.dirname(HERE)]
