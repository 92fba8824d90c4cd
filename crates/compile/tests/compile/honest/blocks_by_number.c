// cache_blocking
enum { S = 32 };
void dgemm(int n, const double *A, const double *B, double *C) {
  int blocks = n / S;
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int ib = 0; ib < blocks; ib++)
    for (int jb = 0; jb < blocks; jb++)
      for (int kb = 0; kb < blocks; kb++)
        for (int i = 0; i < S; i++)
          for (int j = 0; j < S; j++) {
            double sum = C[(ib * S + i) * n + jb * S + j];
            for (int k = 0; k < S; k++) sum += A[(ib * S + i) * n + kb * S + k] * B[(kb * S + k) * n + jb * S + j];
            C[(ib * S + i) * n + jb * S + j] = sum;
          }
}
