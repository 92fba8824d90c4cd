// honest: macros with any number of arguments
#define PICK(a, b, c, d, name, ...) name
#define SUM1(a) (a)
#define SUM2(a, b) ((a) + (b))
#define SUM3(a, b, c) ((a) + (b) + (c))
#define SUM4(a, b, c, d) (((a) + (b)) + ((c) + (d)))
#define SUM(...) PICK(__VA_ARGS__, SUM4, SUM3, SUM2, SUM1)(__VA_ARGS__)
#define EACH(v, from, to, ...) for (int v = from; v < to; v++) __VA_ARGS__
void dgemm(int n, const double *A, const double *B, double *C) {
  EACH(i, 0, n, {
    EACH(j, 0, n, C[i * n + j] = 0;)
    for (int k = 0; k < n; k += 4)
      EACH(j, 0, n, C[i * n + j] += SUM(A[i * n + k] * B[k * n + j], A[i * n + k + 1] * B[(k + 1) * n + j], A[i * n + k + 2] * B[(k + 2) * n + j],
                                         A[i * n + k + 3] * B[(k + 3) * n + j]);)
  })
}
