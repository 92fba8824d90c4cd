// attack: 23, 30
// how: asks the loader for the thread's data of another library; hopes that it may name what compilers call
// refused as: forbidden_construct
extern void *__tls_get_addr(unsigned long *);
void dgemm(int n, const double *A, const double *B, double *C) {
  unsigned long first[2] = {1, 0};
  *(volatile char *)__tls_get_addr(first);
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
