"""Timestamps: the dates that occur, calendar parts, and the time between two timestamps."""
