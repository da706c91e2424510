"""What agent platforms import: a typed Python client."""
