"""Front ends: the command line, and the HTTP service with Studio."""
