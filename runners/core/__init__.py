"""What knows nothing of the rest: values, errors, programs, files, locks, HTTP, signals."""
