// Quotients rounded once to an integer. The definitions of the quantised operators divide a sum of products of integers
// and scales by the scale of the output, and round the exact quotient.
#pragma once

namespace kilter {

/// The sum of two doubles that is not evaluated; |low| is at most half a unit in the last place of `high`. It holds the
/// product or the sum of any two doubles exactly, unless that leaves their range.
struct Wide {
  double high = 0;
  double low = 0;
};

Wide wide_product(double a, double b);
Wide wide_sum(double a, double b);
/// Return a * b and a + b with errors of about 2^-104 of the operands' size.
Wide operator*(Wide a, double b);
Wide operator+(Wide a, double b);

/// Returns the f32 nearest to the value, ties to even.
float rounded_f32(Wide value);

/// Returns the integer nearest to value / divisor, ties to even. Quotients of 2^31 or more in magnitude are returned
/// without rounding, and NaN stays NaN.
double rounded_quotient(Wide value, double divisor);

}  // namespace kilter
