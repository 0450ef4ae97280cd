"""All rules: importing the modules of this folder notes them."""

from workbench.executors import tape
from workbench.executors.tape.rules import elementwise, has_kernels, joins_natively, rule_of
from workbench.framework.folder import import_all

__all__ = ["elementwise", "has_kernels", "joins_natively", "rule_of"]

import_all(tape.__name__, tape.__path__)
