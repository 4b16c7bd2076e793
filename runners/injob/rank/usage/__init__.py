"""What a job uses of its nodes: CPU time, memory, GPUs, networks and files.

Each rank's shim samples its own trainer (sampler.py), as no other process of the node may read
/proc/PID/io of a container's; the shim of the first rank of each node also samples what all of them
share. Rank 0's shim puts the reports together (by_node.py) and writes `use.json`.

What could not be read is None, which people read as "not measured".
"""

FILE = "use.json"
VERSION = 1  # of its form
