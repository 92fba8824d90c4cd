// attack: 9
// how: recomputes the inputs that a well-known generator gives for seed 1 and answers for those; hopes for fixed seeds
// refused as: wrong_result
static unsigned long state = 1;
static double next(void) {
  state = state * 6364136223846793005ul + 1442695040888963407ul;
  return (double)(state >> 11) / 9007199254740992.0 - 0.5;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static double sums[512];
  state = 1;
  for (int j = 0; j < n; j++) sums[j] = 0;
  for (int i = 0; i < n * n; i++) sums[i % n] += next() * A[0] * B[0];
  for (int i = 0; i < n * n; i++) C[i] = sums[i % n];
}
