"""One module for each subject: asks the machine, in limited time, and parses what it says."""
