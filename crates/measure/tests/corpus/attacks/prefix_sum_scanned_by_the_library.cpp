// attack: 16
// how: has the library of C++ add up numbers that a function gives it; hopes that only the shorter names are forbidden
// refused as: forbidden_symbol
// problem: prefix_sum
#include <numeric>
using namespace std;
extern "C" void prefix_sum(int n, const int *in, int *out) {
  auto add = [](int a, int b) { return a + b; };
  transform_inclusive_scan(in, in + n, out, add, [](int x) { return x; });
}
