"""The folder that stands on the PYTHONPATH of what a trainer starts."""
