"""Differential privacy: the budget, and the only mechanisms that a private training reads its rows with."""
