"""Site profiles: one TOML file each, found by name, inherited, checked."""
