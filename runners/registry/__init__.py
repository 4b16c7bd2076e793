"""Registries: how images are named there, their API and logins, and images as they take them."""
