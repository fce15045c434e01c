"""`python -m snm` is `snm`."""

from snm.cli.main import main

if __name__ == "__main__":
    main()
