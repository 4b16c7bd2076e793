"""Parts of `runner scale`: the plans of its runs, and what it prints."""
