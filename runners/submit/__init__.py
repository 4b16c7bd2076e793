"""Drafts to jobs: one run, job arrays, dependencies, and sessions within a job."""
