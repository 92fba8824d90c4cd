// honest: four rows at a time share each row of the second operand
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i += 4) {
    double *c0 = C + i * n, *c1 = c0 + n, *c2 = c1 + n, *c3 = c2 + n;
    for (int j = 0; j < n; j++) c0[j] = c1[j] = c2[j] = c3[j] = 0;
    for (int k = 0; k < n; k++) {
      double a0 = A[i * n + k], a1 = A[(i + 1) * n + k], a2 = A[(i + 2) * n + k], a3 = A[(i + 3) * n + k];
      for (int j = 0; j < n; j++) {
        double b = B[k * n + j];
        c0[j] += a0 * b;
        c1[j] += a1 * b;
        c2[j] += a2 * b;
        c3[j] += a3 * b;
      }
    }
  }
}
