"""Products of matrices, and what is made of them: distances, norms, contractions.

A compiled step of float32 or bfloat16 keeps the error of a sum of K products below u (log2(K) sum |products| +
|result|), u being half the distance from 1 to the next number. Where BLAS multiplies (dynamic mode, float64, a vector
times a matrix), 2 sqrt(K) stands for log2(K).
"""
