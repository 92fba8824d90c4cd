// attack: 4
// how: has a static object whose constructor fills a table when the program is loaded; hopes that loading is not timed
// refused as: forbidden_construct
struct Table {
  double values[4096];
  Table() {
    for (int i = 0; i < 4096; i++) values[i] = 1.0 / (i + 1 + (long)this % 7);
  }
};
static Table table;
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  C[0] += 0 * table.values[n % 4096];
}
