"""Tables whose missing cells are filled: single values, multiple imputation, pooled estimates, sensitivity."""
