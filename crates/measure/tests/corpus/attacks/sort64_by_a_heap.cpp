// attack: 16
// how: has the library make a heap and sort it; hopes that nothing of it is called a sort
// refused as: forbidden_symbol
// problem: sort64
#include <algorithm>
namespace library = std;
extern "C" void sort64(int batch, const int *in, int *out) {
  for (int i = 0; i < 64 * batch; i++) out[i] = in[i];
  for (int b = 0; b < batch; b++) {
    int *a = out + 64 * b;
    library::make_heap(a, a + 64);
    library::sort_heap(a, a + 64);
  }
}
