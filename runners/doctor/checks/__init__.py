"""One module for each subject: facts -> findings, pure."""
