"""A process that holds client sockets: connections, asks, guards, registration."""
