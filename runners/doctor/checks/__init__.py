"""One module for each subject: what is asked of the machine, and the findings, which are pure."""
