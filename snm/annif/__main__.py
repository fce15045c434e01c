"""`python -m snm.annif` is `annif` with one more backend."""

from snm.annif import main

main()
