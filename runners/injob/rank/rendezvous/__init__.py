"""Where the ranks of a job meet: Horovod's key-value store, kept by the job itself (session.py)."""
