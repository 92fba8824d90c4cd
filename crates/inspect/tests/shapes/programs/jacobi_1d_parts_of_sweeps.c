/* problem: polybench_jacobi_1d */
/* techniques: none */
static int least(int a, int b) { return a < b ? a : b; }
void polybench_jacobi_1d(int tsteps, int n, double *A, double *B) {
  B[0] = A[0];
  B[n - 1] = A[n - 1];
  for (int part = 0; part < tsteps; part += 32)
    for (int t = part; t < least(tsteps, part + 32); t++) {
      for (int i = 1; i < n - 1; i++) B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1]);
      for (int i = 1; i < n - 1; i++) A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1]);
    }
}
