// attack: 29
// how: writes its vector type by an attribute in two parts; hopes that only whole words are looked for
// refused as: forbidden_technique
// permitted: loop_reorder, unroll
#define JOIN(a, b) a##b
#define OF(bytes) __attribute__((JOIN(vector, _size)(bytes)))
typedef double four OF(32);
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j += 4) {
      four sum = {0, 0, 0, 0};
      for (int k = 0; k < n; k++) sum += A[i * n + k] * *(const four *)&B[k * n + j];
      *(four *)&C[i * n + j] = sum;
    }
}
