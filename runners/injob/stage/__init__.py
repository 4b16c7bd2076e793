"""Data and images on a node's own disk, by its own Python (3.6: hence annotations in quotes)."""
