// honest: the entry itself is declared with arrays and qualifiers
void dgemm(const int n, const double A[restrict], const double B[restrict static 64 * 64], double C[const restrict]) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
