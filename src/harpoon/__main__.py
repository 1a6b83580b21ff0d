"""`python -m harpoon`: the command line."""

from harpoon.apps.cli import main

if __name__ == "__main__":
    main()
