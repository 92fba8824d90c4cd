// problem: histogram
// techniques: none
#include <algorithm>
extern "C" void histogram(int n, int bins, const int *key, int *count) {
  std::fill(count, count + bins, 0);
  for (auto k = key; k != key + n; ++k) ++count[*k];
}
