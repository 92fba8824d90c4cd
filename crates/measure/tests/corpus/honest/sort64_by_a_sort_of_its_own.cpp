// honest: a sort of its own called `sort`, with small helpers of the library
// problem: sort64
#include <algorithm>
namespace mine {
static void sort(int *a, int n) {
  for (int i = 1; i < n; i++) {
    const int x = a[i];
    int *place = std::upper_bound(a, a + i, x);
    std::copy_backward(place, a + i, a + i + 1);
    *place = x;
  }
}
}
extern "C" void sort64(int batch, const int *in, int *out) {
  std::copy(in, in + 64 * batch, out);
  for (int b = 0; b < batch; b++) mine::sort(out + 64 * b, 64);
}
