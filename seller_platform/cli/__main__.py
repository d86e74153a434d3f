"""`python -m seller_platform.cli` is `seller-platform`."""

from seller_platform.cli import main

if __name__ == "__main__":  # the workers of the service import this module again
    main()
