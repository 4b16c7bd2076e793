"""Trainers to begin with: each one file of at most 100 lines that imports nothing of ours."""
