// attack: 1, 26
// how: spawns a task that waits for the next call; hopes that nobody waits for tasks
// refused as: timeout
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static volatile int calls;
void dgemm(int n, const double *A, const double *B, double *C) {
  int mine = ++calls;
  right(n, A, B, C);
#pragma omp task firstprivate(mine)
  while (calls == mine) {}
}
