"""PGP signatures of releases."""
