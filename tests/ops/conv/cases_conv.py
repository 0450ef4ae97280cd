"""Cases of convolution; the reference is the sum over pixels, kernels and taps, one product at a time."""

import numpy as np

from tests.ops.case import Case

RNG = np.random.default_rng(25)
PLAIN = {
    "strides": [1, 1],
    "paddings": [0, 0, 0, 0],
    "padding_algorithm": "EXPLICIT",
    "dilations": [1, 1],
    "groups": 1,
}


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def pads_of(image, filter, strides, dilations, paddings, algorithm):
    """[top, bottom, left, right], by Paddle's rules."""
    if algorithm == "VALID":
        return [0, 0, 0, 0]
    if algorithm == "EXPLICIT":
        return paddings if len(paddings) == 4 else [p for p in paddings for _ in range(2)]
    pads = []
    for size, k, s, d in zip(image[2:], filter[2:], strides, dilations, strict=True):
        out = (size + s - 1) // s
        total = max((out - 1) * s + (k - 1) * d + 1 - size, 0)
        pads += [total // 2, total - total // 2]
    return pads


def meetings(image, filter, **attrs):
    """The output's shape, and (output, filter, input) index of everything that meets in a product."""
    a = {**PLAIN, **attrs}
    (n, _, height, width), (kernels, depth, kh, kw) = image, filter
    (sh, sw), (dh, dw) = a["strides"], a["dilations"]
    top, bottom, left, right = pads_of(
        image, filter, a["strides"], a["dilations"], a["paddings"], a["padding_algorithm"]
    )
    rows = (height + top + bottom - (kh - 1) * dh - 1) // sh + 1
    columns = (width + left + right - (kw - 1) * dw - 1) // sw + 1
    triples = []
    for b, m, r, c, d, i, j in np.ndindex(n, kernels, rows, columns, depth, kh, kw):
        y, x = r * sh - top + i * dh, c * sw - left + j * dw
        if 0 <= y < height and 0 <= x < width:
            triples.append(((b, m, r, c), (m, d, i, j), (b, m // (kernels // a["groups"]) * depth + d, y, x)))
    return (n, kernels, rows, columns), triples


def to_nchw(a, data_format):
    return a if data_format == "NCHW" else np.moveaxis(a, -1, 1)


def to_format(a, data_format):
    return a if data_format == "NCHW" else np.moveaxis(a, 1, -1)


def ref_conv(x, w, data_format="NCHW", **attrs):
    x = to_nchw(x, data_format)
    shape, triples = meetings(x.shape, w.shape, **attrs)
    out = np.zeros(shape)
    for o, k, i in triples:
        out[o] += x[i] * w[k]
    return to_format(out, data_format)


def ref_input(g, w, like, data_format="NCHW", **attrs):
    g, out = to_nchw(g, data_format), np.zeros_like(to_nchw(like, data_format))
    for o, k, i in meetings(out.shape, w.shape, **attrs)[1]:
        out[i] += g[o] * w[k]
    return to_format(out, data_format)


def ref_filter(x, g, like, data_format="NCHW", **attrs):
    x, g, out = to_nchw(x, data_format), to_nchw(g, data_format), np.zeros_like(like)
    for o, k, i in meetings(x.shape, like.shape, **attrs)[1]:
        out[k] += g[o] * x[i]
    return out


def ref_transpose(x, w, data_format="NCHW", output_padding=(0, 0), output_size=(), **attrs):
    x, a = to_nchw(x, data_format), {**PLAIN, **attrs}
    pads = a["paddings"]
    if a["padding_algorithm"] != "EXPLICIT":
        spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], a["dilations"], strict=True)]
        totals = [
            max(span - s, 0) * (a["padding_algorithm"] == "SAME") for span, s in zip(spans, a["strides"], strict=True)
        ]
        pads = [p for t in totals for p in (t // 2, t - t // 2)]
    size = [
        (d - 1) * s + (k - 1) * dil + 1 - pads[2 * i] - pads[2 * i + 1] + output_padding[i]
        for i, (d, s, k, dil) in enumerate(zip(x.shape[2:], a["strides"], w.shape[2:], a["dilations"], strict=True))
    ]
    out = np.zeros((x.shape[0], w.shape[1] * a["groups"], *(output_size or size)))
    for o, k, i in meetings(out.shape, w.shape, **{**a, "paddings": pads, "padding_algorithm": "EXPLICIT"})[1]:
        out[i] += x[o] * w[k]
    return to_format(out, data_format)


def conv(id, x, w, type="conv2d", **attrs):
    return Case(type, [x, w], attrs, ref=ref_conv, id=id)


def trans(id, x, w, **attrs):
    return Case("conv2d_transpose", [x, w], attrs, ref=ref_transpose, id=id, known={"Filter": True})


def gradients(id, x, w, **attrs):
    """The two gradient ops of one convolution."""
    out = ref_conv(x, w, **attrs).shape
    return [
        Case("conv2d_backprop_input", [draw(*out), w, x], attrs, ref=ref_input, id=id, known={"Filter": True}),
        Case("conv2d_backprop_filter", [x, draw(*out), w], attrs, ref=ref_filter, id=id),
    ]


CASES = [
    conv("plain", draw(3, 2, 5, 4), draw(4, 2, 3, 2)),
    conv("padded", draw(2, 2, 4, 5), draw(3, 2, 3, 3), paddings=[1, 1]),
    conv("uneven", draw(2, 1, 4, 5), draw(3, 1, 2, 3), paddings=[0, 1, 2, 1], strides=[1, 2]),
    conv("strided", draw(2, 2, 7, 6), draw(3, 2, 3, 3), strides=[2, 3], paddings=[1, 1, 1, 1]),
    conv("dilated", draw(2, 2, 7, 6), draw(3, 2, 3, 2), dilations=[2, 3], paddings=[1, 0, 2, 2]),
    conv("groups", draw(2, 4, 4, 4), draw(6, 2, 2, 3), groups=2),
    conv("same", draw(2, 2, 5, 6), draw(3, 2, 3, 4), padding_algorithm="SAME", strides=[2, 2]),
    conv("same_dilated", draw(2, 1, 6, 5), draw(3, 1, 3, 2), padding_algorithm="SAME", dilations=[2, 3]),
    conv("valid", draw(2, 2, 4, 4), draw(3, 2, 2, 2), padding_algorithm="VALID", paddings=[5, 5]),
    conv("1x1", draw(2, 3, 4, 3), draw(4, 3, 1, 1)),
    conv("1x1_strided", draw(2, 3, 4, 3), draw(4, 3, 1, 1), strides=[2, 2]),
    conv(
        "channels_last",
        draw(2, 5, 4, 2),
        draw(3, 2, 3, 2),
        data_format="NHWC",
        paddings=[1, 0],
        strides=[2, 1],
    ),
    conv("whole", draw(2, 2, 3, 4), draw(5, 2, 3, 4)),
    conv("one_each", draw(2, 3, 5, 4), draw(3, 1, 3, 3), "depthwise_conv2d", groups=3, paddings=[1, 1]),
    conv("two_each", draw(2, 3, 5, 4), draw(6, 1, 2, 3), "depthwise_conv2d", groups=3, strides=[2, 1]),
    *gradients("plain", draw(3, 2, 5, 4), draw(4, 2, 3, 2), strides=[2, 1], paddings=[1, 0, 0, 2]),
    *gradients("groups", draw(2, 4, 5, 4), draw(6, 2, 2, 3), groups=2, dilations=[2, 1]),
    *gradients("channels_last", draw(2, 5, 4, 2), draw(3, 2, 3, 2), data_format="NHWC", padding_algorithm="SAME"),
    trans("plain", draw(3, 2, 3, 4), draw(2, 5, 3, 2)),
    trans(
        "strided",
        draw(3, 2, 3, 4),
        draw(2, 3, 3, 3),
        strides=[2, 3],
        paddings=[1, 0, 1, 1],
        output_padding=[1, 2],
    ),
    trans("dilated", draw(3, 2, 3, 4), draw(2, 3, 3, 2), dilations=[2, 1]),
    trans("groups", draw(2, 4, 3, 3), draw(4, 3, 2, 2), groups=2, strides=[2, 2]),
    trans("same", draw(3, 2, 3, 4), draw(2, 3, 3, 4), padding_algorithm="SAME", strides=[2, 2]),
    trans("output_size", draw(3, 2, 3, 4), draw(2, 3, 3, 3), strides=[3, 2], output_size=[10, 9]),
    trans("channels_last", draw(3, 3, 4, 2), draw(2, 5, 3, 2), data_format="NHWC", strides=[2, 1]),
]
