"""Interactive sessions: a shell in an allocation, a command in a job, a web server."""
