"""What was asked: the table of settings, their sources merged, and the profiles of sites."""
