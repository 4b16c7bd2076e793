"""Runs on disk and their jobs: find them, their state, logs, metrics."""
