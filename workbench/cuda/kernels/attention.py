"""Kernels of attention, `softmax(Q K' factor + Mask) V`, and its gradients, for which no matrix of scores is in memory.

A block takes a tile of queries and goes through the keys tile by tile: scores are made in registers, and what was added
up before is scaled whenever a larger one appears. Gradients make the scores again, from the logarithm of the sum of
every row: a block takes a tile of queries for that of Q, and a tile of keys for those of K and V. So nothing is added
atomically, and bits are the same however a launch goes.

Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench.cuda.kernels.elementwise import broadcast_strides, dense_strides
from workbench.cuda.kernels.launch import CudaKernel, Launch, written_kernel
from workbench.cuda.kernels.numbers import NoKernel, held
from workbench.framework.values.dtype import as_dtype

MOST_SHARED = 48 << 10
"""Bytes of shared memory that every block may have."""
TILES = (32, 16, 8)
SIDE = 16
"""Threads of a block are this many times as many, or fewer where a tile has fewer rows."""
MOST_GRID = 2**31 - 1


class Attention(NamedTuple):
    """The sizes of one attention.

    Attributes:
        batch: matrices: pairs of samples and heads. queries, keys: rows. depth: of Q and K. width: of V.
        keeps_rows: K is `[keys, depth]`, and not `[depth, keys]`.
        mask: the strides of a mask along samples, heads, queries and keys; None without one.
    """

    samples: int
    heads: int
    queries: int
    keys: int
    depth: int
    width: int
    keeps_rows: bool = True
    mask: tuple[int, ...] | None = None

    @property
    def batch(self) -> int:
        return self.samples * self.heads

    def tile(self, dtype: Any) -> int:
        """Rows of a tile: as many as shared memory has room for, at most 32.

        Raises:
            NoKernel: rows are too long.
        """
        item = 8 if as_dtype(dtype).name == "float64" else 4
        for rows in TILES:
            lengths = (self.depth | 1) + (self.width | 1) + (rows if rows <= SIDE else rows + SIDE)
            if item * rows * 2 * lengths <= MOST_SHARED:
                return rows
        raise NoKernel(f"queries of {self.depth} and values of {self.width} numbers do not fit into shared memory")


def attention_sizes(
    q: Sequence[int], k: Sequence[int], v: Sequence[int], mask: Sequence[int] | None, keeps_rows: bool
) -> Attention:
    """The sizes of operands of these shapes, of which only the mask is broadcast.

    Raises:
        NoKernel: other operands are, too, or there is more than samples and heads.
    """
    if not tuple(q[:-2]) == tuple(k[:-2]) == tuple(v[:-2]) or len(q) > 4:
        raise NoKernel("attention of broadcast operands, or of more than 4 dimensions, has no kernel")
    keys = k[-2] if keeps_rows else k[-1]
    batch = (*[1] * (4 - len(q)), *q[:-2])
    whole = (*batch, q[-2], keys)
    strides = None
    if mask is not None:
        if len(mask) > 4 or any(m not in (1, n) for m, n in zip(mask[::-1], whole[::-1], strict=False)):
            raise NoKernel("a mask larger than the scores has no kernel")
        strides = broadcast_strides(mask, dense_strides(mask), whole)
    return Attention(batch[0], batch[1], q[-2], keys, q[-1], v[-1], keeps_rows, strides)


_HEAD = r"""
#define DEPTH_ROW (DEPTH | 1)
#define WIDTH_ROW (WIDTH | 1)
#define EACH (TILE / SIDE)
#define PITCH (TILE > SIDE ? TILE + SIDE : TILE)
#define DEPTHS ((DEPTH + SIDE - 1) / SIDE)
#define WIDTHS ((WIDTH + SIDE - 1) / SIDE)

// Rows of a matrix from one on, zeros behind the last one; a row of the tile has an odd length.
template <int COLUMNS, class T>
__device__ __forceinline__ void take(NUMBER* tile, const T* x, long long begin, long long rows, long long down,
                                     long long right) {
  for (int n = threadIdx.x; n < TILE * COLUMNS; n += SIDE * SIDE) {
    const int row = n / COLUMNS, column = n % COLUMNS;
    const bool is_there = begin + row < rows;
    tile[row * (COLUMNS | 1) + column] = is_there ? (NUMBER)number_of(x[(begin + row) * down + column * right]) : 0;
  }
}
// The product of a row of each of two tiles.
template <int COLUMNS> __device__ __forceinline__ NUMBER row_product(const NUMBER* a, const NUMBER* b) {
  NUMBER total = 0;
  for (int n = 0; n < COLUMNS; ++n) total += a[n] * b[n];
  return total;
}
__device__ __forceinline__ NUMBER across_side(NUMBER x) {
  for (int apart = SIDE / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
  return x;
}
__device__ __forceinline__ NUMBER largest_across_side(NUMBER x) {
  for (int apart = SIDE / 2; apart > 0; apart /= 2) x = np_maximum(x, __shfl_xor_sync(0xffffffffu, x, apart));
  return x;
}
"""
_BEGIN = """
  const long long tiles = (ROWS + TILE - 1) / TILE, matrix = blockIdx.x / tiles;
  const long long own_begin = blockIdx.x % tiles * TILE;
  const int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  const auto q_here = q + matrix * queries * DEPTH;
  const auto k_here = k + matrix * keys * DEPTH;
  const auto v_here = v + matrix * keys * WIDTH;
  MASK_HERE
"""
_MASK_HERE = "const auto mask_here = mask + (matrix / heads * mask_sample + matrix % heads * mask_head);"
_SCORE = """
        const long long row = q_begin + ty + a * SIDE, column = k_begin + tx + b * SIDE;
        const bool is_there = row < queries && column < keys;
        NUMBER score = row_product<DEPTH>(q_tile + (ty + a * SIDE) * DEPTH_ROW, k_tile + (tx + b * SIDE) * DEPTH_ROW);
        score *= (NUMBER)factor;
"""
_MASKED = "        if (is_there) score += (NUMBER)number_of(mask_here[row * mask_row + column * mask_column]);\n"
_FORWARD = """
  __shared__ NUMBER q_tile[TILE * DEPTH_ROW], k_tile[TILE * DEPTH_ROW], v_tile[TILE * WIDTH_ROW], weights[TILE * PITCH];
  const long long q_begin = own_begin;
  NUMBER most[EACH], sum[EACH], total[EACH][WIDTHS];
  for (int a = 0; a < EACH; ++a) {
    most[a] = -INFINITE;
    sum[a] = 0;
    for (int n = 0; n < WIDTHS; ++n) total[a][n] = 0;
  }
  take<DEPTH>(q_tile, q_here, q_begin, queries, DEPTH, 1);
  for (long long k_begin = 0; k_begin < keys; k_begin += TILE) {
    take<DEPTH>(k_tile, k_here, k_begin, keys, k_down, k_right);
    take<WIDTH>(v_tile, v_here, k_begin, keys, WIDTH, 1);
    __syncthreads();
    for (int a = 0; a < EACH; ++a) {
      NUMBER scores[EACH], top = most[a];
      for (int b = 0; b < EACH; ++b) {
        SCORE
        scores[b] = column < keys ? score : -INFINITE;
        top = np_maximum(top, scores[b]);
      }
      top = largest_across_side(top);
      // Where all there is so far is -infinity, nothing is subtracted: the weights are 0.
      const NUMBER base = top == -INFINITE ? (NUMBER)0 : top, shrunk = np_exp(most[a] - base);
      NUMBER own = 0;
      for (int b = 0; b < EACH; ++b) {
        const NUMBER weight = np_exp(scores[b] - base);
        weights[(ty + a * SIDE) * PITCH + tx + b * SIDE] = weight;
        own += weight;
      }
      sum[a] = sum[a] * shrunk + across_side(own);
      most[a] = top;
      for (int n = 0; n < WIDTHS; ++n) total[a][n] *= shrunk;
    }
    __syncthreads();
    for (int a = 0; a < EACH; ++a)
      for (int n = 0; n < WIDTHS; ++n)
        if (tx + n * SIDE < WIDTH)
          for (int c = 0; c < TILE; ++c)
            total[a][n] += weights[(ty + a * SIDE) * PITCH + c] * v_tile[c * WIDTH_ROW + tx + n * SIDE];
    __syncthreads();
  }
  for (int a = 0; a < EACH; ++a) {
    const long long row = q_begin + ty + a * SIDE, at = matrix * queries + row;
    NUMBER product = 0;
    for (int n = 0; n < WIDTHS; ++n) {
      const int column = tx + n * SIDE;
      if (row >= queries || column >= WIDTH) continue;
      const NUMBER result = total[a][n] / sum[a];
      EACH_RESULT
    }
    product = across_side(product);
    if (row < queries && tx == 0) { EACH_ROW }
  }
"""
_WEIGHTS = """
    for (int a = 0; a < EACH; ++a)
      for (int b = 0; b < EACH; ++b) {
        SCORE
        const long long at = matrix * queries + row;
        const NUMBER weight = is_there ? np_exp(score - log_sums[at]) : (NUMBER)0;
        const NUMBER *of_g = g_tile + (ty + a * SIDE) * WIDTH_ROW, *of_v = v_tile + (tx + b * SIDE) * WIDTH_ROW;
        const NUMBER through = row_product<WIDTH>(of_g, of_v);
        const int place = (ty + a * SIDE) * PITCH + tx + b * SIDE;
        KEEP
        gradients[place] = is_there ? weight * (through - products[at]) * (NUMBER)factor : (NUMBER)0;
      }
    __syncthreads();
"""
_TILES = """
  __shared__ NUMBER q_tile[TILE * DEPTH_ROW], k_tile[TILE * DEPTH_ROW];
  __shared__ NUMBER v_tile[TILE * WIDTH_ROW], g_tile[TILE * WIDTH_ROW];
  __shared__ NUMBER gradients[TILE * PITCH];
  const auto g_here = g + matrix * queries * WIDTH;
"""
_OF_QUERIES = f"""{_TILES}
  const long long q_begin = own_begin;
  NUMBER total[EACH][DEPTHS];
  for (int a = 0; a < EACH; ++a)
    for (int n = 0; n < DEPTHS; ++n) total[a][n] = 0;
  take<DEPTH>(q_tile, q_here, q_begin, queries, DEPTH, 1);
  take<WIDTH>(g_tile, g_here, q_begin, queries, WIDTH, 1);
  for (long long k_begin = 0; k_begin < keys; k_begin += TILE) {{
    take<DEPTH>(k_tile, k_here, k_begin, keys, k_down, k_right);
    take<WIDTH>(v_tile, v_here, k_begin, keys, WIDTH, 1);
    __syncthreads();
    {_WEIGHTS.replace("KEEP", "")}
    for (int a = 0; a < EACH; ++a)
      for (int n = 0; n < DEPTHS; ++n)
        if (tx + n * SIDE < DEPTH)
          for (int c = 0; c < TILE; ++c)
            total[a][n] += gradients[(ty + a * SIDE) * PITCH + c] * k_tile[c * DEPTH_ROW + tx + n * SIDE];
    __syncthreads();
  }}
  for (int a = 0; a < EACH; ++a)
    for (int n = 0; n < DEPTHS; ++n) {{
      const long long row = q_begin + ty + a * SIDE, column = tx + n * SIDE;
      if (row < queries && column < DEPTH) put(of_q + ((matrix * queries + row) * DEPTH + column), total[a][n]);
    }}
"""
_OF_KEYS = f"""{_TILES}
  __shared__ NUMBER weights[TILE * PITCH];
  const long long k_begin = own_begin;
  NUMBER of_key[EACH][DEPTHS], of_value[EACH][WIDTHS];
  for (int a = 0; a < EACH; ++a) {{
    for (int n = 0; n < DEPTHS; ++n) of_key[a][n] = 0;
    for (int n = 0; n < WIDTHS; ++n) of_value[a][n] = 0;
  }}
  take<DEPTH>(k_tile, k_here, k_begin, keys, k_down, k_right);
  take<WIDTH>(v_tile, v_here, k_begin, keys, WIDTH, 1);
  for (long long q_begin = 0; q_begin < queries; q_begin += TILE) {{
    take<DEPTH>(q_tile, q_here, q_begin, queries, DEPTH, 1);
    take<WIDTH>(g_tile, g_here, q_begin, queries, WIDTH, 1);
    __syncthreads();
    {_WEIGHTS.replace("KEEP", "weights[place] = weight;")}
    for (int a = 0; a < EACH; ++a) {{
      const int own = ty + a * SIDE;
      for (int n = 0; n < DEPTHS; ++n)
        if (tx + n * SIDE < DEPTH)
          for (int c = 0; c < TILE; ++c)
            of_key[a][n] += gradients[c * PITCH + own] * q_tile[c * DEPTH_ROW + tx + n * SIDE];
      for (int n = 0; n < WIDTHS; ++n)
        if (tx + n * SIDE < WIDTH)
          for (int c = 0; c < TILE; ++c)
            of_value[a][n] += weights[c * PITCH + own] * g_tile[c * WIDTH_ROW + tx + n * SIDE];
    }}
    __syncthreads();
  }}
  for (int a = 0; a < EACH; ++a) {{
    const long long row = k_begin + ty + a * SIDE;
    if (row >= keys) continue;
    for (int n = 0; n < DEPTHS; ++n) {{
      const long long column = tx + n * SIDE;
      if (column < DEPTH) put(of_k + (matrix * keys * DEPTH + row * k_down + column * k_right), of_key[a][n]);
    }}
    for (int n = 0; n < WIDTHS; ++n) {{
      const long long column = tx + n * SIDE;
      if (column < WIDTH) put(of_v + ((matrix * keys + row) * WIDTH + column), of_value[a][n]);
    }}
  }}
"""


@dataclass(frozen=True)
class AttentionKernel:
    """A kernel of attention.

    Attributes:
        kernel: its operands begin with q, k, v, and mask if there is one; the function that made it tells the others.
        of_keys: a block takes a tile of keys. tile: rows of a tile. made_for: the sizes that the source depends on.
    """

    kernel: CudaKernel
    of_keys: bool
    tile: int
    made_for: tuple[int, int, bool]

    def launch(self, one: Attention, factor: float) -> Launch:
        """For sizes; `factor`: what scores are multiplied by."""
        if (one.depth, one.width, one.mask is not None) != self.made_for:
            raise NoKernel("queries, values or masks are others than those the kernel was made for")
        blocks = -(-(one.keys if self.of_keys else one.queries) // self.tile) * one.batch
        if blocks > MOST_GRID:
            raise NoKernel(f"{one.batch} attentions are more than one launch takes")
        side = min(self.tile, SIDE)
        strides = (one.depth, 1) if one.keeps_rows else (1, one.keys)
        numbers = [np.int64(n) for n in (one.heads, one.queries, one.keys, *strides, *(one.mask or ()))]
        return Launch((blocks, 1, 1), (side * side, 1, 1), (*numbers, np.float64(factor)))


def attention_kernel(dtype: Any, one: Attention) -> AttentionKernel:
    """Its other operand is `y`, the result."""
    text = _FORWARD.replace("EACH_RESULT", "put(y + (at * WIDTH + column), result);").replace("EACH_ROW", "")
    return _kernel("attention", dtype, one, text, ["y"], [])


def attention_rows_kernel(dtype: Any, one: Attention) -> AttentionKernel:
    """What the gradients need of every query; its other operands are g, and the results log_sums and products.

    These are the logarithm of the sum of the scores' exponentials, and the product of g and the attention's result:
    float32, or float64 for float64.
    """
    text = _FORWARD.replace("EACH_RESULT", "product += result * (NUMBER)number_of(g[at * WIDTH + column]);")
    text = text.replace("EACH_ROW", "log_sums[at] = most[a] + np_log(sum[a]); products[at] = product;")
    return _kernel("attention_rows", dtype, one, text, ["g"], ["log_sums", "products"])


def attention_queries_kernel(dtype: Any, one: Attention) -> AttentionKernel:
    """The gradient of Q; its other operands are g, of_q (the result), log_sums and products."""
    return _kernel("attention_queries", dtype, one, _OF_QUERIES, ["g", "of_q"], ["log_sums", "products"])


def attention_keys_kernel(dtype: Any, one: Attention) -> AttentionKernel:
    """The gradients of K and V; its other operands are g, of_k and of_v (the results), log_sums and products."""
    return _kernel(
        "attention_keys", dtype, one, _OF_KEYS, ["g", "of_k", "of_v"], ["log_sums", "products"], of_keys=True
    )


def _kernel(
    stem: str, dtype: Any, one: Attention, text: str, others: Sequence[str], wide: Sequence[str], of_keys: bool = False
) -> AttentionKernel:
    name, has_mask = as_dtype(dtype).name, one.mask is not None
    if not as_dtype(dtype).is_float:
        raise NoKernel(f"attention is of floating numbers, not of {name}")
    tile, number = one.tile(name), held(name)
    pieces = {
        "SCORE": _SCORE + (_MASKED if has_mask else ""), "ROWS": "keys" if of_keys else "queries",
        "MASK_HERE": _MASK_HERE if has_mask else "", "NUMBER": number,
        "INFINITE": f"(({number})__longlong_as_double(0x7ff0000000000000))",
    }  # fmt: skip
    text = _BEGIN + text
    for piece, own in pieces.items():
        text = text.replace(piece, own)
    sizes = {"TILE": tile, "SIDE": min(tile, SIDE), "DEPTH": one.depth, "WIDTH": one.width}
    head = "".join(f"\n#define {key} {size}" for key, size in sizes.items()) + _HEAD.replace("NUMBER", number)
    operands = [(operand, name) for operand in ("q", "k", "v", *(["mask"] if has_mask else []), *others)]
    operands += [(operand, "float64" if name == "float64" else "float32") for operand in wide]
    numbers = "heads queries keys k_down k_right" + (" mask_sample mask_head mask_row mask_column" if has_mask else "")
    kernel = written_kernel(stem, operands, f"{numbers} double:factor", text, min(tile, SIDE) ** 2, head)
    return AttentionKernel(kernel, of_keys, tile, (one.depth, one.width, has_mask))
