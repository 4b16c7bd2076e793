"""Names that the host and a job share: files, kinds of failures, exit codes, enums, parsers.

It uses the standard library only. In a job this folder lies below `injob`, as its `contract`. The
modules that staging imports run with Python 3.6.
"""
