"""What another user of the nodes tries against ada's jobs, and fails."""
