"""Model: training, evaluation and prediction of a layer in a few calls, with callbacks."""
