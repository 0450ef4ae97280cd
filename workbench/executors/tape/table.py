"""All rules: importing their modules notes them."""

from workbench.executors.tape import convolutions, fused_norms, losses, norms, pooling, products, sums, updates  # noqa: F401
from workbench.executors.tape.rules import elementwise, has_kernels, joins_natively, rule_of

__all__ = ["elementwise", "has_kernels", "joins_natively", "rule_of"]
