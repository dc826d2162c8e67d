"""`python -m capstext` is the `capstext` command."""

from capstext.cli import main

main()
