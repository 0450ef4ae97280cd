"""Losses."""

from __future__ import annotations

from functools import partial

from workbench.layers.thin.function_layer import function_layer
from workbench.ops.loss import likelihoods as likelihood
from workbench.ops.loss import losses as ops
from workbench.ops.loss import margins
from workbench.ops.loss.cross_entropy import cross_entropy, nll_loss
from workbench.ops.loss.ctc import ctc_loss

PAIR = "wb.rand([4, 3]), wb.rand([4, 3])"
CLASSES = "wb.rand([4, 3]), wb.to_tensor([0, 1, 2, 0])"
SIGNS = "wb.to_tensor([1.0, -1.0, 1.0, 1.0])"

_loss = partial(function_layer, inputs="input, label", prefix="")

BCELoss = _loss("BCELoss", ops.binary_cross_entropy, {"weight": None, "reduction": "mean"}, on=PAIR)
BCEWithLogitsLoss = _loss(
    "BCEWithLogitsLoss", ops.binary_cross_entropy_with_logits,
    {"weight": None, "reduction": "mean", "pos_weight": None}, inputs="logit, label", on=PAIR,
)  # fmt: skip
CosineEmbeddingLoss = _loss(
    "CosineEmbeddingLoss", margins.cosine_embedding_loss, {"margin": 0, "reduction": "mean"},
    inputs="input1, input2, label", on=f"{PAIR}, {SIGNS}",
)  # fmt: skip
CTCLoss = _loss(
    "CTCLoss", ctc_loss, {"blank": 0, "reduction": "mean"}, inputs="log_probs, labels, input_lengths, label_lengths",
    has_name=False, on="wb.rand([5, 2, 3]), wb.to_tensor([[1, 2], [2, 2]]), wb.to_tensor([5, 4]), wb.to_tensor([2, 1])",
)  # fmt: skip
CrossEntropyLoss = _loss(
    "CrossEntropyLoss", cross_entropy,
    {
        "weight": None, "ignore_index": -100, "reduction": "mean", "soft_label": False, "axis": -1,
        "use_softmax": True, "label_smoothing": 0.0,
    }, on=CLASSES,
)  # fmt: skip
GaussianNLLLoss = _loss(
    "GaussianNLLLoss", likelihood.gaussian_nll_loss, {"full": False, "epsilon": 1e-6, "reduction": "mean"},
    inputs="input, label, variance", on=f"{PAIR}, wb.ones([4, 3])",
)  # fmt: skip
HingeEmbeddingLoss = _loss(
    "HingeEmbeddingLoss",
    margins.hinge_embedding_loss,
    {"margin": 1.0, "reduction": "mean"},
    on=f"wb.rand([4]), {SIGNS}",
)
KLDivLoss = _loss("KLDivLoss", ops.kl_div, {"reduction": "mean"}, has_name=False, on=PAIR)
L1Loss = _loss("L1Loss", ops.l1_loss, {"reduction": "mean"}, on=PAIR)
MSELoss = _loss("MSELoss", ops.mse_loss, {"reduction": "mean"}, has_name=False, on=PAIR)
MarginRankingLoss = _loss(
    "MarginRankingLoss", margins.margin_ranking_loss, {"margin": 0.0, "reduction": "mean"},
    inputs="input, other, label", on=f"wb.rand([4]), wb.rand([4]), {SIGNS}",
)  # fmt: skip
MultiLabelSoftMarginLoss = _loss(
    "MultiLabelSoftMarginLoss", margins.multi_label_soft_margin_loss, {"weight": None, "reduction": "mean"}, on=PAIR
)
MultiMarginLoss = _loss(
    "MultiMarginLoss",
    margins.multi_margin_loss,
    {"p": 1, "margin": 1.0, "weight": None, "reduction": "mean"},
    on=CLASSES,
)
NLLLoss = _loss(
    "NLLLoss", nll_loss, {"weight": None, "ignore_index": -100, "reduction": "mean"}, prefix="_", on=CLASSES
)
PoissonNLLLoss = _loss(
    "PoissonNLLLoss", likelihood.poisson_nll_loss,
    {"log_input": True, "full": False, "epsilon": 1e-8, "reduction": "mean"}, prefix="_", on=PAIR,
)  # fmt: skip
SmoothL1Loss = _loss("SmoothL1Loss", ops.smooth_l1_loss, {"reduction": "mean", "delta": 1.0}, on=PAIR)
SoftMarginLoss = _loss("SoftMarginLoss", margins.soft_margin_loss, {"reduction": "mean"}, on=f"wb.rand([4]), {SIGNS}")
TripletMarginLoss = _loss(
    "TripletMarginLoss", margins.triplet_margin_loss,
    {"margin": 1.0, "p": 2.0, "epsilon": 1e-6, "swap": False, "reduction": "mean"},
    inputs="input, positive, negative", on=f"{PAIR}, wb.rand([4, 3])",
)  # fmt: skip
TripletMarginWithDistanceLoss = _loss(
    "TripletMarginWithDistanceLoss", margins.triplet_margin_with_distance_loss,
    {"distance_function": None, "margin": 1.0, "swap": False, "reduction": "mean"},
    inputs="input, positive, negative", on=f"{PAIR}, wb.rand([4, 3])",
)  # fmt: skip
