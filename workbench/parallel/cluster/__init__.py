"""Ranks beside a notebook: started once, given programs and batches, watched and replaced from the kernel."""
