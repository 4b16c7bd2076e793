"""Datasets on disk: fetched, packed, checked, made up, found by name, and staged for a job."""
