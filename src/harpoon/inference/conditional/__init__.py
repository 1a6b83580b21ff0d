"""Rows that satisfy a condition, a loss, rules or targets, and how probable a condition is."""
