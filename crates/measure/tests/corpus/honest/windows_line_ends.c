// honest: lines end as on Windows, also in macros of several lines
#define AT(M, r, c) \
  M[(r) * n + (c)]
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) AT(C, i, j) = 0; /* a comment
    of two lines */
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) AT(C, i, j) += AT(A, i, k) * AT(B, k, j);
  }
}
