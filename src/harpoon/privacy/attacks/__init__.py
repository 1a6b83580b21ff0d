"""Attacks on a table of synthetic rows, or on the model that made them, each with a baseline on hold-out rows."""
