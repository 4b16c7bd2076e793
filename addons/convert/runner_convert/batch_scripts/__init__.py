"""Reads batch scripts: what is wrong in them, and the `runner launch` line that does the same.

`syntax` parses the text, `compound_commands` and `simple_commands` follow it and expand its words,
`unwrap` finds what a command starts, `rules` find mistakes, `launch_line` writes the line. A script
is never executed.
"""
