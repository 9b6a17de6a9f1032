// The discrete Fourier transform used by DFT and STFT.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace kilter {

using Complex = std::complex<double>;

/// Returns y[k] = sum over n of x[n] * exp(-2 pi i k n / N) with N = x.size(). `inverse` conjugates the exponent and
/// divides by N. Uses mixed radices (Cooley and Tukey 1965), so the cost is N times the sum of the prime factors of N.
std::vector<Complex> fourier(const std::vector<Complex>& x, bool inverse);

}  // namespace kilter
