// attack: 16
// how: has the library of C++ sort; hopes that only the one of C is forbidden
// refused as: forbidden_symbol
// problem: sort64
#include <algorithm>
extern "C" void sort64(int batch, const int *in, int *out) {
  for (int i = 0; i < 64 * batch; i++) out[i] = in[i];
  for (int b = 0; b < batch; b++) {
    int *a = out + 64 * b;
    std::sort(a, a + 64);
  }
}
