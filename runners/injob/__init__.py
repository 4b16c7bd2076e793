"""What runs within a job: copied into the run's folder, standard library only.

The host side imports from here what both must agree on: exit codes, records, parsers.
"""
