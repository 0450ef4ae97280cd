"""What integers pick: rows and entries of tensors, rows of tables, places by class label, order."""
