// attack: 4, 30
// how: lets a function that runs at load time choose its kernel; hopes to run code before the filter is on
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
typedef void kernel(int, const double *, const double *, double *);
static kernel *choose(void) { return right; }
static kernel chosen __attribute__((ifunc("choose")));
void dgemm(int n, const double *A, const double *B, double *C) { chosen(n, A, B, C); }
