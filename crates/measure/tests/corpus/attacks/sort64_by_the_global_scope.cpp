// attack: 16
// how: opens the library's namespace and calls its sort behind `::`; hopes that a name in the global scope is its own
// refused as: forbidden_symbol
// problem: sort64
#include <algorithm>
using namespace std;
extern "C" void sort64(int batch, const int *in, int *out) {
  for (int i = 0; i < 64 * batch; i++) out[i] = in[i];
  for (int b = 0; b < batch; b++) {
    int *a = out + 64 * b;
    ::sort(a, a + 64);
  }
}
