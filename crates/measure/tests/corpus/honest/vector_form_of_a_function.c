// honest: calls the vector form of a function of the mathematics library
// needs: x86_64
typedef double V __attribute__((vector_size(16)));
extern V _ZGVbN2v_exp(V);
void dgemm(int n, const double *A, const double *B, double *C) {
  static volatile double nothing;
  V zero = {nothing, nothing}, one = _ZGVbN2v_exp(zero);
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += one[0] * A[i * n + k] * B[k * n + j];
}
