// problem: dsyrk
// techniques: packing+layout_change
namespace {
void turn(int n, int k, const double *from, double *to) {
  for (int l = 0; l < k; ++l)
    for (int i = 0; i < n; ++i) to[l * n + i] = from[i * k + l];
}
}
extern "C" void dsyrk(int n, int k, const double *A, double *C) {
  double *turned = new double[n * k];
  turn(n, k, A, turned);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int l = 0; l < k; l++) sum += A[i * k + l] * turned[l * n + j];
      C[i * n + j] = sum;
    }
  delete[] turned;
}
