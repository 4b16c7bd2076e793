"""Whether the plan is right: its verdict beside what really happens, for every cell of a matrix."""
