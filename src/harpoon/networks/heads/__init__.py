"""Heads: conditional distributions of cells from the last hidden layer."""
