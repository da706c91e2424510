"""A node for Linux that answers location.get."""
