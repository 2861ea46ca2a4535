"""HTTP routes, one file a concern."""
