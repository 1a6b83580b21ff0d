"""Bound conditions evaluated: exactly, as a differentiable penalty, and over boxes."""
