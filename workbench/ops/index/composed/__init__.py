"""Entries and parts of tensors picked or replaced by ops composed of others."""
