"""Turns Dockerfiles into definitions."""
