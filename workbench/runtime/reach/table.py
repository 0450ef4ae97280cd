"""All declarations: importing the modules of this folder notes them."""

from workbench.framework.folder import import_all
from workbench.runtime import reach
from workbench.runtime.reach.declare import REACHES, reach_of

__all__ = ["REACHES", "reach_of"]

import_all(reach.__name__, reach.__path__)
