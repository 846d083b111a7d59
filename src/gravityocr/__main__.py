"""`python -m gravityocr` is `gravityocr`."""

from gravityocr.cli import main

if __name__ == "__main__":
    main()
