"""The model: Eqs. (1) to (4) and (7) to (9), as printed and as compiled kernels."""
