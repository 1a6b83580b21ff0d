"""Conditions that no row satisfies, and why."""
