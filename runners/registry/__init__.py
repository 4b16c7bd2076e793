"""Registries and downloads: how images are named there, API, logins, documents, uploads."""
