// attack: 16
// how: sorts all but one by half a sort; hopes that a part is not the work
// refused as: forbidden_symbol
// problem: sort64
#include <algorithm>
using std::partial_sort;
extern "C" void sort64(int batch, const int *in, int *out) {
  for (int i = 0; i < 64 * batch; i++) out[i] = in[i];
  for (int b = 0; b < batch; b++) {
    int *a = out + 64 * b;
    partial_sort(a, a + 63, a + 64);
  }
}
