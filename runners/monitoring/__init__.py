"""A job that was submitted: follow it, its stalls, how runs stand, how they ended and why."""
