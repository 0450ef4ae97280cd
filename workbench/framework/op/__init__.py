"""The op record and what is made of a declaration: backward ops, traced rules, applying an op."""
