"""Calls, routing, merging, tenants, HTTP."""
