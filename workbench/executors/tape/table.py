"""All rules: importing their modules notes them."""

from workbench.executors.tape import (  # noqa: F401
    convolutions,
    copies,
    fused_norms,
    labels,
    losses,
    norms,
    pooling,
    products,
    random,
    sums,
    updates,
)
from workbench.executors.tape.rules import elementwise, has_kernels, joins_natively, rule_of

__all__ = ["elementwise", "has_kernels", "joins_natively", "rule_of"]
