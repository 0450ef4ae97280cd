"""All rules: importing their modules notes them."""

from workbench.executors.tape import losses, products, updates  # noqa: F401
from workbench.executors.tape.rules import has_kernels, rule_of

__all__ = ["has_kernels", "rule_of"]
