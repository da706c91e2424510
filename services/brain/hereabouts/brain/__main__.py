"""`python -m hereabouts.brain`: one brain process."""

from .app import run

if __name__ == "__main__":
    run()
