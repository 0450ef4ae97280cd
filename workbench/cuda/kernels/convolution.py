"""Kernels of convolutions: windows unfolded into columns and folded back, the products between, depthwise ones.

A convolution is a product of its filter and columns: `[taps, pixels]` for every sample and group, a tap being an entry
of a window. The gradient of the input is a product that gives columns, and folding adds them up: a thread gathers what
belongs to its pixel, in one order and without atomic additions. The gradient of the filter is one product over
the pixels of all samples, for which columns lie as `[taps, samples, pixels]` and gradients as `[kernels, samples,
pixels]`. A transposed convolution is the gradient of an input. Depthwise ones need no columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from workbench.cuda.driver import Product
from workbench.cuda.kernels.elementwise import MOST_NARROW, Iteration
from workbench.cuda.kernels.launch import CudaKernel, Launch, blocks_for, written_kernel
from workbench.cuda.kernels.numbers import NoKernel, held, stored
from workbench.cuda.kernels.rows import Team, team_text
from workbench.cuda.kernels.transposes import transposed
from workbench.framework.rows.kernel import LINES
from workbench.framework.values.dtype import as_dtype

THREADS = 256
WARP = 32
MOST_OUTER_BLOCKS = 65535
FILTER_TEAM = Team(128, 1, 0)

Pair = tuple[int, int]


class ImageConvolution(NamedTuple):
    """The sizes of a convolution, every pair (height, width); see `ops.conv.convolutions.convolve.Geometry`.

    Attributes:
        samples, channels, height, width: of the input. kernels: channels of the output.
        pads: ((top, bottom), (left, right)). out: of the output. channels_last: of both; the filter is the same.
    """

    samples: int
    channels: int
    height: int
    width: int
    kernels: int
    kernel: Pair
    strides: Pair
    dilations: Pair
    pads: tuple[Pair, Pair]
    groups: int
    out: Pair
    channels_last: bool = False

    @property
    def taps(self) -> int:
        """Entries of a window: the weights of one kernel."""
        return self.channels // self.groups * prod(self.kernel)

    @property
    def pixels(self) -> int:
        """Of an output."""
        return prod(self.out)

    @property
    def columns(self) -> int:
        """Elements that the columns of all samples have."""
        return self.samples * self.groups * self.taps * self.pixels

    @property
    def is_depthwise(self) -> bool:
        """Every channel has kernels of its own."""
        return self.groups == self.channels

    @property
    def is_plain(self) -> bool:
        """Columns of single samples are the input itself."""
        steps = (*self.kernel, *self.strides)
        return not self.channels_last and not any(sum(self.pads, ())) and set(steps) == {1}

    def image_strides(self) -> tuple[int, int, int, int]:
        """Of sample, channel, height and width of the input."""
        n, c, h, w = self.channels * self.height * self.width, self.height * self.width, self.width, 1
        return (n, 1, self.width * self.channels, self.channels) if self.channels_last else (n, c, h, w)

    def result_strides(self) -> tuple[int, int, int]:
        """Of sample, kernel and pixel of the output."""
        return (self.kernels * self.pixels, *((1, self.kernels) if self.channels_last else (self.pixels, 1)))


# Kernels -----------------------------------------------------------------------------------------------------------

_SIZES = "height width out_height out_width kernel_height kernel_width stride_y stride_x dilation_y dilation_x top left"
_STRIDES = "image_sample image_channel image_row image_column result_sample result_row result_pixel"
_NUMBERS = " ".join(["samples channels kernels", *(f"int:{name}" for name in _SIZES.split()), _STRIDES])
_PLANES = """
  for (long long plane = blockIdx.y * blockDim.y + threadIdx.y; plane < samples * CHANNELS;
       plane += gridDim.y * blockDim.y)
    for (unsigned int p = blockIdx.x * blockDim.x + threadIdx.x; p < (unsigned int)HIGH * (unsigned int)WIDE;
         p += gridDim.x * blockDim.x) {
      const long long sample = plane / CHANNELS, channel = plane % CHANNELS;
      const int y_here = p / WIDE, x_here = p % WIDE;
"""
_TAPS = """
      for (int i = 0; i < kernel_height; ++i)
        for (int j = 0; j < kernel_width; ++j) {
"""
_READ = """
          const int row = y_here * stride_y - top + i * dilation_y, column = x_here * stride_x - left + j * dilation_x;
          const bool is_inside = row >= 0 && row < height && column >= 0 && column < width;
"""
_REACHED = """
          const int down = y_here + top - i * dilation_y, right = x_here + left - j * dilation_x;
          const int row = down / stride_y, column = right / stride_x;
          if (down < 0 || right < 0 || row * stride_y != down || column * stride_x != right) continue;
          if (row >= out_height || column >= out_width) continue;
          const long long pixel = row * out_width + column;
"""
_UNFOLD = f"""
      typedef STORED element;
      const element* from = x + (sample * image_sample + channel * image_channel);
      element* to = y + (sample * result_sample + channel * kernel_height * kernel_width * result_row + p);
      {_TAPS}{_READ}
          *to = is_inside ? from[row * image_row + column * image_column] : element();
          to += result_row;
        }}
    }}
"""
_FOLD = f"""
      const long long first = sample * result_sample + channel * kernel_height * kernel_width * result_row;
      NUMBER total = 0;
      {_TAPS}{_REACHED}
          total += number_of(x[first + (i * kernel_width + j) * result_row + pixel]);
        }}
      put(y + (sample * image_sample + channel * image_channel + y_here * image_row + x_here * image_column), total);
    }}
"""
_DEPTHWISE = f"""
      const long long first = sample * image_sample + channel / (kernels / channels) * image_channel;
      const auto weights = w + channel * kernel_height * kernel_width;
      NUMBER total = 0;
      {_TAPS}{_READ}
          if (is_inside)
            total += number_of(x[first + row * image_row + column * image_column])
                   * number_of(weights[i * kernel_width + j]);
        }}
      put(y + (sample * result_sample + channel * result_row + p * result_pixel), total);
    }}
"""
_DEPTHWISE_INPUT = f"""
      const long long each = kernels / channels, area = kernel_height * kernel_width;
      NUMBER total = 0;
      for (long long kernel = channel * each; kernel < (channel + 1) * each; ++kernel) {{
        const auto from = g + (sample * result_sample + kernel * result_row);
        {_TAPS}{_REACHED}
          total += number_of(from[pixel * result_pixel]) * number_of(w[kernel * area + i * kernel_width + j]);
        }}
      }}
      put(y + (sample * image_sample + channel * image_channel + y_here * image_row + x_here * image_column), total);
    }}
"""
_DEPTHWISE_FILTER = """
  __shared__ NUMBER shared[32];
  const int area = kernel_height * kernel_width, pixels = out_height * out_width;
  const int i = blockIdx.x % area / kernel_width, j = blockIdx.x % kernel_width;
  const long long kernel = blockIdx.x / area;
  const auto from = x + kernel / (kernels / channels) * image_channel;
  const auto gradient = g + kernel * result_row;
  Sum sum;
  for (long long n = threadIdx.x; n < samples * pixels; n += TEAM) {
    const long long sample = n / pixels;
    const int p = (int)(n % pixels), y_here = p / out_width, x_here = p % out_width;
    READ
    if (is_inside)
      sum.take(number_of(from[sample * image_sample + row * image_row + column * image_column])
             * number_of(gradient[sample * result_sample + p * result_pixel]));
  }
  const NUMBER total = of_team(sum, shared);
  if (threadIdx.x == 0) put(y + blockIdx.x, total);
""".replace("READ", _READ)


@dataclass(frozen=True)
class ConvolutionKernel:
    """A kernel of convolutions of any sizes.

    Attributes:
        kernel: its operands are told by the function that made it.
        covers: what has a thread: "input" or "output" pixels; or a block: "filter" entries.
        has_columns: they are what it writes or reads besides the image.
    """

    kernel: CudaKernel
    covers: str
    has_columns: bool = False

    def launch(self, one: ImageConvolution, is_across: bool = False) -> Launch:
        """For sizes; `is_across`: columns lie as the gradient of the filter wants them."""
        numbers = [np.int64(n) for n in (one.samples, one.channels, one.kernels)]
        sizes = (one.height, one.width, *one.out, *one.kernel, *one.strides, *one.dilations)
        ints = [np.int32(n) for n in (*sizes, one.pads[0][0], one.pads[1][0])]
        result = _column_strides(one, is_across) if self.has_columns else one.result_strides()
        strides = [np.int64(n) for n in (*one.image_strides(), *result)]
        return Launch(*self._geometry(one), (*numbers, *ints, *strides))

    def _geometry(self, one: ImageConvolution) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        if max(one.height * one.width, one.pixels) >= MOST_NARROW:
            raise NoKernel("images of so many pixels are not convolved by one launch")
        if self.covers == "filter":
            return (one.kernels * prod(one.kernel), 1, 1), (FILTER_TEAM.threads, 1, 1)
        pixels = one.pixels if self.covers == "output" else one.height * one.width
        planes = one.samples * (one.channels if self.has_columns or self.covers == "input" else one.kernels)
        across = WARP
        while across < THREADS and across < pixels:
            across *= 2
        above = THREADS // across
        return (blocks_for(pixels, across), blocks_for(planes, above, MOST_OUTER_BLOCKS), 1), (across, above, 1)


def _column_strides(one: ImageConvolution, is_across: bool) -> tuple[int, int, int]:
    """Of sample, tap and pixel."""
    if is_across:
        return one.pixels, one.samples * one.pixels, 1
    return one.groups * one.taps * one.pixels, one.pixels, 1


def unfold_kernel(dtype: Any) -> ConvolutionKernel:
    """Columns `y` of an image `x`, zeros in the padding."""
    return _kernel("unfold", "x y", dtype, _over_output("channels", _UNFOLD), "output", True)


def fold_kernel(dtype: Any) -> ConvolutionKernel:
    """An image `y` of columns `x`, whose entries of the same pixel are added up."""
    return _kernel("fold", "x y", dtype, _over_input(_FOLD), "input", True)


def depthwise_kernel(dtype: Any) -> ConvolutionKernel:
    """The depthwise convolution `y` of `x` and a filter `w`."""
    return _kernel("depthwise", "x w y", dtype, _over_output("kernels", _DEPTHWISE), "output")


def depthwise_input_kernel(dtype: Any) -> ConvolutionKernel:
    """The gradient `y` of the input of a depthwise convolution, of `g` and the filter `w`."""
    return _kernel("depthwise_input", "g w y", dtype, _over_input(_DEPTHWISE_INPUT), "input")


def depthwise_filter_kernel(dtype: Any) -> ConvolutionKernel:
    """The gradient `y` of the filter of a depthwise convolution, of `x` and `g`."""
    return _kernel("depthwise_filter", "x g y", dtype, _DEPTHWISE_FILTER, "filter")


def _over_output(channels: str, text: str) -> str:
    planes = _PLANES.replace("CHANNELS", channels).replace("HIGH", "out_height").replace("WIDE", "out_width")
    return planes + text


def _over_input(text: str) -> str:
    return _PLANES.replace("CHANNELS", "channels").replace("HIGH", "height").replace("WIDE", "width") + text


def _kernel(
    stem: str, names: str, dtype: Any, text: str, covers: str, has_columns: bool = False
) -> ConvolutionKernel:  # fmt: skip
    name = as_dtype(dtype).name
    if not as_dtype(dtype).is_float:
        raise NoKernel(f"convolutions are of floating numbers, not of {name}")
    text = text.replace("STORED", stored(name)).replace("NUMBER", held(name))
    head = team_text(LINES, FILTER_TEAM, held(name)) if covers == "filter" else ""
    operands = [(operand, name) for operand in names.split()]
    threads = FILTER_TEAM.threads if covers == "filter" else THREADS
    return ConvolutionKernel(written_kernel(stem, operands, _NUMBERS, text, threads, head), covers, has_columns)


# Products ----------------------------------------------------------------------------------------------------------


class ConvolutionProduct(NamedTuple):
    """A product of matrices that a convolution needs.

    Attributes:
        a, b, c: how many elements behind the beginning of its operands it begins.
    """

    product: Product
    a: int
    b: int
    c: int


def forward_products(one: ImageConvolution, dtype: Any, tf32: bool = False) -> list[ConvolutionProduct]:
    """The output: products of the filter and columns; with channels last, of columns and the filter."""
    own, taps, pixels, whole = one.kernels // one.groups, one.taps, one.pixels, one.groups * one.taps * one.pixels
    of_filter, of_columns = (own * taps, 0), (taps * pixels, whole)
    of_output = (own if one.channels_last else own * pixels, one.kernels * pixels)
    if one.channels_last:
        matrix = Product(pixels, own, taps, as_dtype(dtype).name, True, True, ldc=one.kernels, tf32=tf32)
        return _each_group(one, matrix, of_columns, of_filter, of_output)
    return _each_group(
        one, Product(own, pixels, taps, as_dtype(dtype).name, tf32=tf32), of_filter, of_columns, of_output
    )


def input_products(one: ImageConvolution, dtype: Any, tf32: bool = False) -> list[ConvolutionProduct]:
    """Columns of the input's gradient: products of the filter and the output's gradient."""
    own, taps, pixels = one.kernels // one.groups, one.taps, one.pixels
    matrix = Product(
        taps, pixels, own, as_dtype(dtype).name, True, one.channels_last, ldb=one.channels_last * one.kernels, tf32=tf32
    )
    of_output = (own if one.channels_last else own * pixels, one.kernels * pixels)
    return _each_group(one, matrix, (own * taps, 0), of_output, (taps * pixels, one.groups * taps * pixels))


def filter_product(
    one: ImageConvolution, dtype: Any, accumulate: bool = False, tf32: bool = False
) -> ConvolutionProduct:
    """The filter's gradient: of the output's gradient and columns that lie across samples.

    The output's gradient has to lie as `[kernels, samples, pixels]`, see `gradient_across`; with channels last it stays
    as it is.
    """
    own, taps, pixels = one.kernels // one.groups, one.taps, one.samples * one.pixels
    last = one.channels_last
    matrix = Product(
        own, taps, pixels, as_dtype(dtype).name, last, True, lda=last * one.kernels, batch=one.groups,
        stride_a=own if last else own * pixels, stride_b=taps * pixels, stride_c=own * taps, accumulate=accumulate,
        tf32=tf32,
    )  # fmt: skip
    return ConvolutionProduct(matrix, 0, 0, 0)


def gradient_across(one: ImageConvolution) -> Iteration | None:
    """The copy of the output's gradient that the filter's needs, by `transposes.move_kernel`; None: it needs none."""
    if one.channels_last or one.samples == 1:
        return None
    return transposed((one.samples, one.kernels, one.pixels), (1, 0, 2))


def _each_group(one: ImageConvolution, matrix: Product, *steps: tuple[int, int]) -> list[ConvolutionProduct]:
    """A product for every group of all samples, or for every sample of all groups: whichever are fewer.

    Args:
        steps: of the operands, from a group to the next and from a sample to the next.
    """
    by_group = one.groups <= one.samples
    count, batch = (one.groups, one.samples) if by_group else (one.samples, one.groups)
    apart, together = (0, 1) if by_group else (1, 0)
    fields = matrix.__dict__ | {"batch": batch}
    fields |= {f"stride_{letter}": step[together] for letter, step in zip("abc", steps, strict=True)}
    whole = Product(**fields)
    return [ConvolutionProduct(whole, *(n * step[apart] for step in steps)) for n in range(count)]
