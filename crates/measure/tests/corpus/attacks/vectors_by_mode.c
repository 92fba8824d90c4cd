// attack: 29
// how: writes its vector type by a machine mode; hopes that only one spelling is known
// refused as: forbidden_construct
// permitted: loop_reorder, unroll
typedef double four __attribute__((mode(V4DF)));
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j += 4) {
      four sum = {0, 0, 0, 0};
      for (int k = 0; k < n; k++) sum += A[i * n + k] * *(const four *)&B[k * n + j];
      *(four *)&C[i * n + j] = sum;
    }
}
