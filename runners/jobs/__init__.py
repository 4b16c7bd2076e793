"""Runs on disk and their jobs: find them, their state, metrics."""
