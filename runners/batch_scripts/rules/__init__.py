"""What is wrong in a batch script: each rule has a code, and a script that has the mistake.

The codes are stable; `make reference` writes a page of all of them.
"""
