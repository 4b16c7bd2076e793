"""What a job does on its nodes to have its data on their own disks: copied there, held, removed.

It is copied into the run's folder and runs on the node's own Python, outside any container: 3.6 or
newer, which enterprise systems of 2018 have (hence annotations in quotes), and nothing else.
"""
