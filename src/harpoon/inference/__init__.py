"""Inference: what is asked of a trained model.

`RowSampler` samples missing cells, autoregressively or by reverse diffusion. `ConditionalSampler` finds rows that
satisfy a condition by one of the `STRATEGIES`, `ConditionalCompletion` completes partial rows under one; both are a
`ConditionSearch`, which guides rows. A `Query` is a condition and a loss that the estimator asks for, a `PartialTable`
a table whose unknown cells it fills. Results are `Expectation`, `MultipleImputation`, `Pooled`, `Feasibility` and
`SamplingInfo`.
"""
