"""Real things that tests drive: a browser, a screen."""
