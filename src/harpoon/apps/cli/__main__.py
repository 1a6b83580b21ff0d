"""`python -m harpoon.apps.cli` is `harpoon`."""

from harpoon.apps.cli import main

main()
