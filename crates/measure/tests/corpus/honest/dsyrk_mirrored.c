// honest: one triangle in strides of two rows, the other by a copy at the end
// problem: dsyrk
void dsyrk(int n, int k, const double *A, double *C) {
  for (int i = 0; i < n; i += 2) {
    const double *a = A + i * k, *b = i + 1 < n ? a + k : a;
    for (int j = 0; j <= i + 1 && j < n; j++) {
      const double *c = A + j * k;
      double first = 0, second = 0;
      for (int l = 0; l < k; l++) first += a[l] * c[l], second += b[l] * c[l];
      C[i * n + j] = first;
      if (b != a) C[(i + 1) * n + j] = second;
    }
  }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) C[j * n + i] = C[i * n + j];
}
