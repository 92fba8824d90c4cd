// attack: 6
// how: sets the number of threads through a pointer; hopes that only calls are looked at
// refused as: forbidden_symbol
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
extern char omp_set_num_threads;
void dgemm(int n, const double *A, const double *B, double *C) {
  ((void (*)(int))&omp_set_num_threads)(64);
#pragma omp parallel for
  for (int i = 0; i < n; i += 4) rows(n, A, B, C, i, i + 4);
}
