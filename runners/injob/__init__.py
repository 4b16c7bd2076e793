"""What runs within a job: copied into the run's folder, standard library only.

No room of the host's imports it; what both know is in `runners/contract`, which is copied into this
folder.
"""

import os

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "injob":
    # In a job this package is its own parent: `injob.injob.rank` finds `...contract` below `injob`,
    # as `runners.injob.rank` finds it below `runners`.
    __path__ = [HERE, os.path.dirname(HERE)]
