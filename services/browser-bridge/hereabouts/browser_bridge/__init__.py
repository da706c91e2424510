"""The edge for browser tabs, its page modules and the chat page."""
