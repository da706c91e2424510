"""The edge for devices that speak the OpenClaw gateway protocol."""
