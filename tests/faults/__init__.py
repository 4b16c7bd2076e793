"""Faults, caused for real on a cluster of its own: python -m tests.faults --help.

Each fault strikes a job that trains, or a client that looks at one. What is written down is how
long it took until the job had ended, what the user was told, what was left, and whether all results
are whole.
"""
