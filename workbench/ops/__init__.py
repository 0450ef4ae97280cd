"""The ops, declared once each. Importing this package fills the op table."""

from workbench.framework.folder import import_all

import_all(__name__, __path__)
