// attack: 11, 29
// how: the attribute comes out of a macro that puts its name together; hopes that words are looked for
// refused as: forbidden_construct
#define WITHOUT(what) __attribute__((no_sanitize_##what))
WITHOUT(address)
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  C[0] += 0 * A[n * n];
}
