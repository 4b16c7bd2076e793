"""What a job uses of its nodes: CPU time, memory, GPUs, networks and files."""
