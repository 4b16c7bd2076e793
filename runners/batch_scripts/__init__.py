"""Reads batch scripts: what is wrong in them, and the `runner launch` line that does the same.

`read` makes commands of the syntax tree, `steps` what a command starts, `rules` find mistakes,
`launch_line` writes the line. A script is never executed.
"""
