"""HTTP service and command line in front of the speech engine."""
