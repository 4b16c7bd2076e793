"""Trainers to begin with: each one file of at most 60 lines that imports nothing of ours."""
