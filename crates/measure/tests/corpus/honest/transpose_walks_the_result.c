// honest: one loop over the result, whose source wraps around
// problem: transpose
void transpose(int m, int n, const double *A, double *B) {
  const long count = (long)m * n;
  for (long to = 0, from = 0; to < count; to++) {
    B[to] = A[from];
    from += n;
    if (from >= count) from -= count - 1;
  }
}
