"""What the host and a job both know: names of files, kinds of failures, exit codes, enums, parsers.

Standard library only. `runners/injob` has this folder below it in a job, as its `contract`; what
staging imports is Python 3.6.
"""
