/* problem: transpose */
/* techniques: none */
void transpose(int m, int n, const double *A, double *B) {
  for (int i = 0; i < m; i++)
    for (int d = i; d < i + n; d++) B[(d - i) * m + i] = A[i * n + d - i];
}
