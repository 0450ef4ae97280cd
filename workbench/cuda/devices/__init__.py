"""GPUs as executors see them, whichever driver offers them."""
