"""Tensors of exact real numbers, and convolutions and windows of integers, for tests that judge roundings.

A real tensor consists of approximations and of a function that returns one element as a Fraction: if an approximation
is far from halfway between two integers, it is rounded, and otherwise the Fraction is.
"""
from fractions import Fraction

import numpy as np

TYPES = {np.dtype(np.uint8): (0, 255), np.dtype(np.int8): (-128, 127)}
NEAR = 2.0**-20  # distance from a tie at which approximations, whose errors are below 2^-30, do not decide
SNAP = Fraction(1, 2**32)  # Kilter rounds quotients to multiples of it first, so that ties survive the rounding of factors


class Real:
    """A tensor of real numbers. `exact(i)` is element i of the tensor in row-major order. `loose`: operators on floats
    compute it, so its quotients are known only up to their rounding."""

    def __init__(self, approx, exact, loose=False):
        self.approx, self.exact, self.loose = np.asarray(approx, np.longdouble), exact, loose
        self.unit = None  # the factor of integers that the tensor began with

    @property
    def shape(self):
        return self.approx.shape

    @staticmethod
    def products(integers, factor, summand=Fraction(0)):
        """integers * factor + summand, where the Fractions are scalars or arrays that broadcast."""
        spread = lambda v: np.broadcast_to(np.asarray(v, object), integers.shape)
        factor, summand, flat = spread(factor), spread(summand), integers.ravel()
        real = Real(integers * floats(factor) + floats(summand),
                    lambda i: int(flat[i]) * factor.flat[i] + summand.flat[i])
        real.unit = float(factor.flat[0]) if factor.size else None
        return real

    def map(self, approx, exact):
        real = Real(approx(self.approx), lambda i: exact(self.exact(i)), self.loose)
        real.unit = self.unit
        return real

    def on_floats(self):
        return Real(self.approx, self.exact, True)

    def pick(self, where):
        """The elements at these positions, a tensor of the shape of `where`."""
        flat = where.ravel()
        return Real(self.approx.ravel()[where], lambda i: self.exact(int(flat[i])), self.loose)

    def mean(self, members, counts):
        """Sums over the last dimension of `members`, positions or -1, divided by `counts`."""
        rows, flat = members.reshape(-1, members.shape[-1]), counts.ravel()
        sums = np.where(members < 0, 0, self.approx.ravel()[members]).sum(-1)
        return Real(sums / counts, lambda i: sum(self.exact(int(j)) for j in rows[i] if j >= 0) / int(flat[i]))

    def largest(self, members):
        """The largest element of each row of positions; -1 is none."""
        values = np.where(members < 0, -np.inf, self.approx.ravel()[members])
        return self.pick(np.take_along_axis(members, values.argmax(-1)[..., None], -1)[..., 0])

    def add(self, other):
        return Real(self.approx + other.approx, lambda i: self.exact(i) + other.exact(i))

    @staticmethod
    def concat(parts, axis):
        starts = np.cumsum([0] + [p.approx.size for p in parts])
        where = np.concatenate([s + np.arange(p.approx.size).reshape(p.shape) for s, p in zip(starts, parts)], axis)
        flat = np.concatenate([p.approx.ravel() for p in parts])

        def exact(i):
            n = int(np.searchsorted(starts, where.flat[i], "right")) - 1
            return parts[n].exact(int(where.flat[i] - starts[n]))
        return Real(flat[where], exact)

    def quotient(self, i, scale):
        return self.exact(i) / Fraction(float(scale))

    def snapped(self, scale):
        """Positions whose quotients are not ties, but so close to one that Kilter treats them as ties."""
        quotient = (self.approx / np.longdouble(scale)).ravel()
        near = np.flatnonzero(np.abs(np.abs(quotient - np.floor(quotient)) - 0.5) < 2.0**-30)
        off = [abs(self.quotient(int(i), scale) % 1 - Fraction(1, 2)) for i in near]
        return [int(i) for i, distance in zip(near, off) if 0 < distance < SNAP]

    def near_ties(self, scale):
        """Positions whose quotients may be on either side of a tie after rounding to f32."""
        quotient = (self.approx / np.longdouble(scale)).ravel()
        off = np.abs(np.abs(quotient - np.floor(quotient)) - 0.5)
        return np.flatnonzero(off < 1e-5 * (1 + np.abs(quotient)))

    def codes(self, scale, zero, dtype):
        """The quantised tensor: quotients rounded to the nearest integer, ties to even, and saturated."""
        low, high = TYPES[np.dtype(dtype)]
        quotient = (self.approx / np.longdouble(scale)).ravel()
        nearest = np.rint(np.clip(quotient, -1e6, 1e6))
        ties = np.flatnonzero(np.abs(np.abs(quotient - np.floor(quotient)) - 0.5) < NEAR)
        for i in ties[np.abs(quotient[ties]) < 1e6]:
            nearest[i] = round(self.quotient(int(i), scale))
        return np.clip(nearest.astype(np.int64) + int(zero), low, high).astype(dtype).reshape(self.shape)


def floats(fractions):
    """Fractions as long doubles, each distinct one converted once."""
    known = {}
    def one(f):
        if f not in known:
            known[f] = np.longdouble(f.numerator) / np.longdouble(f.denominator)
        return known[f]
    return np.array([one(f) for f in fractions.flat], np.longdouble).reshape(fractions.shape)


def fractions(values):
    return np.vectorize(lambda v: Fraction(float(v)), otypes=[object])(values)


def along(values, axis, rank):
    """One-dimensional values as a tensor that varies along `axis`; a scalar stays one."""
    values = np.asarray(values)
    return values if values.ndim == 0 else values.reshape([-1 if d == axis else 1 for d in range(rank)])


# ---- Windows ----


def window_members(shape, kernel, strides, pads, dilations):
    """Positions in an image [N, C, ...] of all taps of all windows, [N, C, ..., taps], and -1 in the padding."""
    spatial, rank = shape[2:], len(kernel)
    grids, inside = [], []
    for d in range(rank):
        count = (spatial[d] + pads[d] + pads[rank + d] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1
        at = np.arange(count)[:, None] * strides[d] - pads[d] + np.arange(kernel[d])[None, :] * dilations[d]
        view = [1] * (2 * rank)
        view[d], view[rank + d] = at.shape
        grids.append(at.reshape(view))
        inside.append(((at >= 0) & (at < spatial[d])).reshape(view))
    offset, valid = 0, True
    for d in range(rank):
        offset, valid = offset * spatial[d] + grids[d], valid & inside[d]
    out = offset.shape[:rank]
    offset, valid = (np.broadcast_to(v, offset.shape).reshape(out + (-1,)) for v in (offset, valid))
    planes = np.arange(shape[0] * shape[1]).reshape(shape[:2] + (1,) * (rank + 1)) * int(np.prod(spatial))
    return np.where(valid, planes + offset, -1)


def convolve(x, w, strides, pads, dilations, group):
    """The convolution of integers, int64."""
    members = window_members(x.shape, w.shape[2:], strides, pads, dilations)
    taps = np.where(members < 0, 0, x.ravel()[members])  # [N, C, ..., taps]
    n, channels = x.shape[:2]
    out, filters = taps.shape[2:-1], w.shape[0]
    taps = np.moveaxis(taps.reshape((n, group, channels // group, -1, taps.shape[-1])), 3, 2)
    taps = taps.reshape(n, group, taps.shape[2], -1)  # [N, group, pixels, C / group * taps]
    rows = w.reshape(group, filters // group, -1).transpose(0, 2, 1)
    return np.moveaxis(taps @ rows, 2, 3).reshape((n, filters) + out)
