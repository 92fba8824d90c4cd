// attack: 29
// how: counts by the masks of vectors; hopes that only vectors are looked for
// refused as: forbidden_technique
// permitted: unroll
// problem: histogram
// needs: x86_64
#include <immintrin.h>
void histogram(int n, int bins, const int *key, int *count) {
  for (int k = 0; k < bins; k++) count[k] = 0;
  for (int i = 0; i < n; i++) {
    __mmask8 one = 1;
    count[key[i]] += one;
  }
}
