"""Defaults of calls that every front end shows: this module imports nothing, so that help texts load nothing."""

DEFAULT_ROWS = 100  # of sample
