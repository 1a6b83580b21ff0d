"""Readers of rules that other tools store, one module per tool. `registry` lists them."""
