"""What the layers of `static.nn` and `nn` are built from: parameters, initializers, layer names, feeds."""
