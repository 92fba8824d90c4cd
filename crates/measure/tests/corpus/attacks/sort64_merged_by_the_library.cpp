// attack: 16
// how: has the library of C++ merge runs twice as long each time; hopes that merging is no sorting
// refused as: forbidden_symbol
// problem: sort64
#include <algorithm>
extern "C" void sort64(int batch, const int *in, int *out) {
  for (int i = 0; i < 64 * batch; i++) out[i] = in[i];
  for (int b = 0; b < batch; b++)
    for (int run = 1; run < 64; run *= 2)
      for (int *a = out + 64 * b; a < out + 64 * b + 64; a += 2 * run) std::inplace_merge(a, a + run, a + 2 * run);
}
