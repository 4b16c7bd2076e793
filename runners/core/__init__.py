"""The base of all rooms: values, errors, programs, files, locks, HTTP, signals."""
