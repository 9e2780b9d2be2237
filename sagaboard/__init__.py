"""sagaboard stands between AI agents and their tools."""
