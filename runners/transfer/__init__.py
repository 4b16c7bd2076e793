"""Bytes from elsewhere onto a disk: HTTP, room, locks, progress. For images and for data."""
