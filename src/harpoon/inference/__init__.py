"""Inference: what is asked of a trained model.

A `ModelCall` is one call of `impute`, `sample`, `feasibility` or `support`. A `TrainedModel` has what all calls of a
model share. `RowSampler` samples missing cells, autoregressively or by reverse diffusion. `ConditionalSampler` finds
rows that satisfy a condition by one of the `STRATEGIES`, and `ConditionalCompletion` completes partial rows under one;
both are a `ConditionSearch`, which guides rows. A `Query` is a condition and a loss, bound to a schema, and a
`PartialTable` is a table whose unknown cells are filled. Results are `Expectation`, `MultipleImputation`, `Pooled`,
`Feasibility` and `SamplingInfo`.

    sampling     missing cells of rows, sampled variable by variable or by reverse diffusion
    conditional  rows that satisfy conditions, losses, rules or targets
    imputation   filled tables: single values, draws, pooled estimates
    diagnostics  what stands behind an answer
    model_call   one call with all its arguments: uses all of the above
"""
