"""A running Hereabouts and scripted clients for tests."""
