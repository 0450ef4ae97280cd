"""Runs begun from what others were made with: again, with another setting, from a checkpoint, in sweeps."""
