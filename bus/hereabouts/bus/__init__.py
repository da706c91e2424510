"""All of Hereabouts that knows Redis: inboxes, outbox, directory, leases, journal, sealing, embedded server."""
