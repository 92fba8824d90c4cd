// attack: 29
// how: adds two numbers at once by the oldest vectors; hopes that their names are forgotten
// refused as: forbidden_technique
// permitted: unroll
// problem: prefix_sum
// needs: x86_64
#include <immintrin.h>
void prefix_sum(int n, const int *in, int *out) {
  int sum = 0, i = 0;
  for (; i + 2 <= n; i += 2) {
    long long pair = _m_to_int64(_m_paddd(_m_from_int64((long long)(unsigned)in[i] << 32), _m_from_int64((long long)in[i + 1] << 32)));
    out[i] = sum + in[i];
    out[i + 1] = sum += (int)(pair >> 32);
  }
  _m_empty();
  if (i < n) out[i] = sum + in[i];
}
