// honest: halves the longer side until little is left, whatever the caches are
// problem: transpose
static void part(int m, int n, const double *from, int wide, double *to, int high) {
  if (m <= 8 && n <= 8) {
    for (int i = 0; i < m; i++)
      for (int j = 0; j < n; j++) to[j * high + i] = from[i * wide + j];
  } else if (m >= n) {
    part(m / 2, n, from, wide, to, high);
    part(m - m / 2, n, from + m / 2 * wide, wide, to + m / 2, high);
  } else {
    part(m, n / 2, from, wide, to, high);
    part(m, n - n / 2, from + n / 2, wide, to + n / 2 * high, high);
  }
}
void transpose(int m, int n, const double *A, double *B) { part(m, n, A, n, B, m); }
