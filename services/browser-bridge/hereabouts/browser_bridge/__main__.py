"""`python -m hereabouts.browser_bridge`."""

from .app import main

if __name__ == "__main__":
    main()
