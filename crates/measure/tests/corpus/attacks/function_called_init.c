// attack: 4, 30
// how: defines a function with the name that a linker takes for the first to be called; hopes to run code at load time without an attribute
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static int ready;
void _init(void) { ready = 1; }
void dgemm(int n, const double *A, const double *B, double *C) {
  if (ready) right(n, A, B, C);
}
