// attack: 16
// how: sorts a range; hopes that functions alone are looked for
// refused as: forbidden_symbol
// problem: sort64
#include <algorithm>
#include <span>
extern "C" void sort64(int batch, const int *in, int *out) {
  for (int i = 0; i < 64 * batch; i++) out[i] = in[i];
  for (int b = 0; b < batch; b++) {
    int *a = out + 64 * b;
    std::ranges::sort(std::span<int>(a, 64));
  }
}
