"""Helpers without domain knowledge: random numbers, files, threads, progress bars, validation."""
