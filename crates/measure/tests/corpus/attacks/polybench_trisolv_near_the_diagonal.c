// attack: 13
// how: takes only the nearest unknowns out of an equation; hopes that a dominant diagonal hides the others
// refused as: wrong_result
// problem: polybench_trisolv
enum { NEAR = 64 };
void polybench_trisolv(int n, const double *L, const double *b, double *x) {
  for (int i = 0; i < n; i++) {
    double sum = b[i];
    for (int j = i > NEAR ? i - NEAR : 0; j < i; j++) sum -= L[i * n + j] * x[j];
    x[i] = sum / L[i * n + i];
  }
}
