"""Releases: signed lists of prebuilt images, where they are, and how one is published."""
