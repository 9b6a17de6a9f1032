// The discrete Fourier transform behind DFT and STFT.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace kilter {

using Complex = std::complex<double>;

/// y[k] = sum over n of x[n] * exp(-2 pi i k n / N) with N = x.size(); `inverse`: the conjugate exponent, divided by N.
/// Mixed radix (Cooley and Tukey 1965): N times the sum of its prime factors.
std::vector<Complex> fourier(const std::vector<Complex>& x, bool inverse);

}  // namespace kilter
