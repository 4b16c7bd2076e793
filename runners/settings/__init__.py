"""The settings of a launch: their table, merged sources, and the request."""
