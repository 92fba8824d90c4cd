// honest: a choice by the type of an expression
#define ABSENT(x) _Generic((x), float: 0.0f, double: 0.0, long double: 0.0L)
#define TERMS(p) _Generic((p), const double *: (n), double *: (n), default: 0)
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = ABSENT(C[e]);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < TERMS(A); k++)
      for (int j = 0; j < TERMS(C); j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
