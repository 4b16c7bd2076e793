"""Datasets on disk: fetched, packed, checked, generated, found by name, and staged for a job."""
