"""`python -m runners` is `runner`."""

from .cli import main

main()
