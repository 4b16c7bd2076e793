"""Getting inside: a shell in an allocation, a command in a running job, a page out of a job."""
