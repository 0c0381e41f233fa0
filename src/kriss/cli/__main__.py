"""`python -m kriss.cli` is `kriss`."""

from kriss.cli import main

if __name__ == "__main__":
    main()
