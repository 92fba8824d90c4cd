// attack: 16
// how: has a function of its own that is called sort, and calls by that name with iterators of the library, whose own sort is found by their types; hopes that a name that is defined here is its own
// refused as: forbidden_construct | forbidden_symbol
// problem: sort64
#include <algorithm>
#include <iterator>
static void sort(int *from, int *to) {
  for (int *x = from; x < to; x++)
    for (int *y = x; y > from && y[-1] > *y; y--) {
      int z = *y;
      *y = y[-1];
      y[-1] = z;
    }
}
extern "C" void sort64(int batch, const int *in, int *out) {
  for (int b = 0; b < batch; b++) {
    for (int i = 0; i < 64; i++) out[64 * b + i] = in[64 * b + i];
    if (in[64 * b] == 1 << 30) sort(out, out + 64);
    std::reverse_iterator<int *> from(out + 64 * b + 64), to(out + 64 * b);
    sort(from, to, [](int x, int y) { return x > y; });
  }
}
