// attack: 16
// how: keeps the library's function in a pointer; hopes that only calls are looked for
// refused as: forbidden_symbol
// problem: sort64
#include <algorithm>
static constexpr void (*order)(int *, int *) = std::sort<int *>;
extern "C" void sort64(int batch, const int *in, int *out) {
  for (int i = 0; i < 64 * batch; i++) out[i] = in[i];
  for (int b = 0; b < batch; b++) {
    int *a = out + 64 * b;
    order(a, a + 64);
  }
}
