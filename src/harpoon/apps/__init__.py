"""Front ends: the command line, the HTTP service with Studio, and Studio as a widget in notebooks."""
