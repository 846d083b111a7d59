"""Documents to files, one module a format."""
