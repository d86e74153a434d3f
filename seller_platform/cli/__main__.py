"""`python -m seller_platform.cli` is `seller-platform`."""

from seller_platform.cli import main

main()
