"""Windows that slide over images: convolution and pooling."""
