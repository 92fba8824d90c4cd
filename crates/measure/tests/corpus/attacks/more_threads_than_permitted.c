// attack: 6
// how: asks for a team of three; hopes for threads that nobody counts
// refused as: left_running | exited
// threads: 2
typedef double V __attribute__((vector_size(32), aligned(8)));
static void rows(int n, const double *A, const double *B, double *C, int from, int to) {
  for (int j = 0; j < n; j += 8)
    for (int i = from; i < to; i += 4) {
      V c[4][2] = {0};
      for (int k = 0; k < n; k++)
        for (int r = 0; r < 4; r++)
          for (int s = 0; s < 2; s++) c[r][s] += A[(i + r) * n + k] * *(V *)&B[k * n + j + s * 4];
      for (int r = 0; r < 4; r++)
        for (int s = 0; s < 2; s++) *(V *)&C[(i + r) * n + j + s * 4] = c[r][s];
    }
}
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel for num_threads(3)
  for (int i = 0; i < n; i += 4) rows(n, A, B, C, i, i + 4);
}
