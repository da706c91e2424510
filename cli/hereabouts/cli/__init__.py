"""The hereabouts command."""
