// attack: 30, 24, 5
// how: keeps its state in memory of the thread; hopes that it outlives what is cleaned up
// refused as: wrong_result
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static __thread struct {
  int calls;
} state;
void dgemm(int n, const double *A, const double *B, double *C) {
  if (!state.calls++) right(n, A, B, C);
}
