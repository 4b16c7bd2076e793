"""The systems that are known: one TOML profile each, found by name, inherited, checked."""
