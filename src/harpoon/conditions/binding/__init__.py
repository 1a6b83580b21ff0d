"""Conditions bound to a schema: typed predicates in normal form."""
