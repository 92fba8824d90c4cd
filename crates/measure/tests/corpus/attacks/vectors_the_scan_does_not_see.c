// attack: 29
// how: shows its vector type to the compiler only, by a macro that is not set where the source is looked at; hopes that both see the same text
// refused as: forbidden_technique
// permitted: none
#ifdef __PIE__
typedef double four;
enum { wide = 1 };
#else
typedef double four __attribute__((vector_size(32)));
enum { wide = 4 };
#endif
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j += wide) {
      four sum = *(const four *)&B[j] * A[i * n];
      for (int k = 1; k < n; k++) sum += *(const four *)&B[k * n + j] * A[i * n + k];
      *(four *)&C[i * n + j] = sum;
    }
}
