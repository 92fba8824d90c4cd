// attack: 2, 8
// how: notes the call and does the work at the start of the next one; hopes that results are looked at late
// refused as: wrong_result
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static struct {
    int n;
    const double *A, *B;
    double *C;
  } due;
  if (due.n) right(due.n, due.A, due.B, due.C);
  due.n = n, due.A = A, due.B = B, due.C = C;
}
