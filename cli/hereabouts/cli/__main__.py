"""`python -m hereabouts.cli`."""

from .main import app

if __name__ == "__main__":
    app(prog_name="hereabouts")
