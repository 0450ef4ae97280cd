"""All rules: importing their modules notes them."""

from workbench.executors.tape import losses, products, updates  # noqa: F401
from workbench.executors.tape.rules import rule_of

__all__ = ["rule_of"]
