"""`python -m harpoon.cli` is `harpoon`."""

from harpoon.cli import main

main()
