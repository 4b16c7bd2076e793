"""Registries: their API and logins, what comes from there, and images as they take them."""
