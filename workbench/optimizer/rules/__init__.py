"""The update rules: one optimizer a file, with its op. Importing this package adds their ops to the table."""

from workbench.framework.folder import import_all

import_all(__name__, __path__)
