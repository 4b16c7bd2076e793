"""The Horovod build: our edits of the released source archive."""
