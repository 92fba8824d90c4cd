// attack: 16
// how: opens the library's namespace inside one of its own and calls the library's sort by that; hopes that a name in a namespace of its own is its own
// refused as: forbidden_symbol
// problem: sort64
#include <algorithm>
namespace own {
using namespace std;
}
extern "C" void sort64(int batch, const int *in, int *out) {
  for (int i = 0; i < 64 * batch; i++) out[i] = in[i];
  for (int b = 0; b < batch; b++) {
    int *a = out + 64 * b;
    own::sort(a, a + 64);
  }
}
