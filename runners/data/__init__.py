"""Datasets on disk: fetched, packed, checked, generated, and found by name."""
