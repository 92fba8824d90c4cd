// attack: 4
// how: puts a pointer into the section of functions that the loader calls; hopes that only the attribute for it is known
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static int ready;
static void early(void) { ready = 1; }
static void (*const entry[])(void) __attribute__((used, section(".init_array"))) = {early};
void dgemm(int n, const double *A, const double *B, double *C) {
  if (ready) right(n, A, B, C);
}
