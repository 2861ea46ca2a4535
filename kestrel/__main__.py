"""`python -m kestrel`."""

from kestrel.service.cli import app

if __name__ == "__main__":
    app(prog_name="kestrel")
