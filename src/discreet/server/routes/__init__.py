"""The paths of the HTTP server, one module for each part of what callers do."""
