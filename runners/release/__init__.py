"""Releases of our images: made by two builders, signed, published, mirrored, and read."""
