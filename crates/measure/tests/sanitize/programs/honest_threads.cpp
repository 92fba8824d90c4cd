// nothing: each thread has a workspace of its own, and the sum is a reduction
template <typename Each>
static double rows(int n, Each each) {
  double total = 0;
#pragma omp parallel for reduction(+ : total)
  for (int i = 0; i < n; i++) total += each(i);
  return total;
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  double total = rows(n, [=](int i) {
    double *row = new double[n]();
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) row[j] += A[i * n + k] * B[k * n + j];
    for (int j = 0; j < n; j++) C[i * n + j] = row[j];
    double first = row[0] * row[0];
    delete[] row;
    return first;
  });
  if (total < 0) C[0] = total;
}
