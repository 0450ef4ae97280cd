"""Values of variables: scopes, the memory of their tensors, and what lies side by side."""
