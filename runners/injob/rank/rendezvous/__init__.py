"""The rendezvous of a job's ranks: Horovod's key-value store, served by the job (session.py)."""
