// honest: no subscript anywhere
void dgemm(int n, const double *A, const double *B, double *C) {
  for (double *c = C, *all = C + n * n; c < all; c += n, A += n) {
    for (double *x = c; x < c + n;) *x++ = 0;
    const double *b = B;
    for (const double *a = A; a != A + n; ++a)
      for (double *x = c, *end = c + n; x != end; ++x, ++b) *x += *a * *b;
  }
}
