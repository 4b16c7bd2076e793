"""Runs within a job: a server of web pages, behind a token, until the job ends.

Copied into the run's folder beside the shim, and run by the image's Python: standard library only,
Python 3.8 or newer. The token is in a file that only its owner can read, and nowhere else.
"""
