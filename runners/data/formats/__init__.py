"""The forms in which data sets come, each described once: for the trainers, and for checking.

Standard library only.
"""


class FormatError(ValueError):
    """A file is not of its form; the text says why, without the file's name."""
