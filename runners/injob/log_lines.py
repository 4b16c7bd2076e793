"""Lines that a job writes into its log and `runner` looks for: each is written in one place."""

START = "runner: start "  # and its number: a job that came back begins anew here
FAILED = "runner: rank {rank} failed: "  # and how; the record has the same with more
NO_MODULE = "runner: no module "  # and its name: the job's script could not load it
