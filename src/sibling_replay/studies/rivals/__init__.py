"""The bench: ways to replay side by side. So far its environments and their settings."""
