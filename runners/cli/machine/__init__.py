"""Commands of the heading This machine: doctor, sites, config."""
