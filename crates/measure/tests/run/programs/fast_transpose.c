/* Squares of eight by eight, so that each line of a cache is used while it is there. */
static __attribute__((noipa)) void rows(int from, int to, int m, int n, const double *A, double *B) {
  int i = from;
  for (; i + 8 <= to; i += 8) {
    int j = 0;
    for (; j + 8 <= n; j += 8)
      for (int c = 0; c < 8; c++)
        for (int r = 0; r < 8; r++) B[(long)(j + c) * m + i + r] = A[(long)(i + r) * n + j + c];
    for (; j < n; j++)
      for (int r = 0; r < 8; r++) B[(long)j * m + i + r] = A[(long)(i + r) * n + j];
  }
  for (; i < to; i++)
    for (int j = 0; j < n; j++) B[(long)j * m + i] = A[(long)i * n + j];
}
void transpose(int m, int n, const double *A, double *B) { rows(0, m, m, n, A, B); }
