"""The ops, declared once each. Importing this package fills the op table."""

from __future__ import annotations
