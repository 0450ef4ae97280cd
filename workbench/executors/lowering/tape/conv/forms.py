"""Which form a convolution takes, and each of its gradients: of those that can do it the quickest, see `costs`."""

from __future__ import annotations

from functools import lru_cache

from workbench.executors.lowering.tape.conv.convolution_tables import LANES, PIXELS, bordered, turned_round
from workbench.executors.lowering.tape.conv.costs import nanoseconds
from workbench.executors.lowering.tape.conv.winograd import suits_winograd
from workbench.ops.conv.convolutions.convolve import Geometry
from workbench.runtime.footprint import FLOAT

MOST_IMAGE = 8 << 20  # bytes of sixteen samples of a group
MOST_SUMS = 1 << 20  # bytes of parts of a filter's gradient
PRODUCTS = ("columns", "together")
COLUMNS = (3, 5)  # of kernels whose gradients have a micro-kernel
KEPT = 1024  # geometries

Forms = dict[str, float]  # nanoseconds of each


@lru_cache(KEPT)
def form_of(geo: Geometry, by_winograd: bool = False, item: int = FLOAT) -> str:
    """The form of a convolution of numbers of so many bytes.

    It may be Winograd's only if that is allowed: it rounds intermediate sums.
    """
    return _quickest(_allowed(convolve_forms(geo), by_winograd, item))


@lru_cache(KEPT)
def input_form_of(geo: Geometry, by_winograd: bool = False, item: int = FLOAT) -> str:
    """The same of the gradient of the input."""
    return _quickest(_allowed(input_forms(geo), by_winograd, item))


@lru_cache(KEPT)
def filter_form_of(geo: Geometry, item: int = FLOAT) -> str:
    """The same of the gradient of the filter."""
    return _quickest(_allowed(filter_forms(geo), False, item))


def _allowed(forms: Forms, by_winograd: bool, item: int) -> Forms:
    """Those that may be taken: of float64 there are products alone."""
    if item != FLOAT:
        return {form: forms[form] for form in PRODUCTS if form in forms}
    return forms if by_winograd else {form: forms[form] for form in forms if form != "winograd"}


def _quickest(forms: Forms) -> str:
    return min(forms, key=lambda form: forms[form])


def convolve_forms(geo: Geometry) -> Forms:
    """Sums in registers whose lanes are "samples", "pixels" or output "channels", "winograd", and products.

    Products are those of the "columns" of each sample, or of many of them "together". Neighbouring pixels are in
    neighbouring lanes only where strides are 1; samples are in lanes wherever their pixels are.
    """
    return _in_registers(geo) | _by_products(geo, "")


def input_forms(geo: Geometry) -> Forms:
    """In registers it is the convolution that gives it, if there is one."""
    turned = turned_round(geo)
    return ({} if turned is None else _in_registers(turned)) | _by_products(geo, "input ")


def filter_forms(geo: Geometry) -> Forms:
    """Sums in registers, of which each is loaded and stored for every sample, and products."""
    forms: Forms = {}
    if geo.kernel[1] in COLUMNS and geo.dilations[1] == 1:
        forms["channels"] = nanoseconds("filter channels", geo)
        if geo.strides[1] == 1 and 4 * LANES * geo.kernels * geo.taps <= MOST_SUMS:
            forms["pixels"] = nanoseconds("filter pixels", geo)
    return forms | _by_products(geo, "filter ")


def _in_registers(geo: Geometry) -> Forms:
    names = ["samples"] if suits_samples(geo) else []
    if geo.strides[1] == 1:
        names += ["pixels", "channels"] if geo.out[1] >= min(PIXELS) else ["pixels"]
    if suits_winograd(geo):
        names.append("winograd")
    return {name: nanoseconds(name, geo) for name in names}


def _by_products(geo: Geometry, prefix: str) -> Forms:
    names = PRODUCTS if geo.groups == 1 else PRODUCTS[:1]
    return {name: nanoseconds(prefix + name, geo) for name in names}


def suits_samples(geo: Geometry) -> bool:
    """Whether lanes can be samples: there are enough, and what sixteen of them are turned into does not grow large."""
    rows, columns = bordered(geo)
    is_small = 4 * LANES * geo.channels // geo.groups * rows * columns <= MOST_IMAGE
    pixels = min(geo.height * geo.width, geo.out[0] * geo.out[1])
    return geo.samples >= LANES and pixels >= LANES and is_small
