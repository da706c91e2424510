"""`python -m hereabouts.node_gateway`."""

from .app import main

if __name__ == "__main__":
    main()
