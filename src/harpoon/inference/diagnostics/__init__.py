"""What stands behind an answer: how its rows were sampled, training rows, intervals, a grade."""
