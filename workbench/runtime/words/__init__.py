"""The numbers that kernels, what is declared of them, the rules that write their rows and their callers agree on."""
