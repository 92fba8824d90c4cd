// attack: 16
// how: has the library of C++ add up all numbers in one call; hopes that only sorting and products are forbidden
// refused as: forbidden_symbol
// problem: prefix_sum
#include <numeric>
extern "C" void prefix_sum(int n, const int *in, int *out) { std::partial_sum(in, in + n, out); }
