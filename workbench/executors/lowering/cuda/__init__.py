"""The lowering for GPUs: rows of a plan become launches, by the rules that write tapes."""
