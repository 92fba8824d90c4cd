// honest: rows stand in a list, and one object holds the functions for all of them, where blocks are not permitted
// permitted: loop_reorder, unroll, register_blocking, packing, simd, openmp, prefetch
struct row {
  int i;
  struct row *next;
};
struct work {
  void (*run[2])(int n, const double *a, const double *B, double *c);
};
static void by_columns(int n, const double *a, const double *B, double *c) {
  for (int j = 0; j < n; j++) {
    double sum = 0;
    for (int k = 0; k < n; k++) sum += a[k] * B[k * n + j];
    c[j] = sum;
  }
}
static void by_terms(int n, const double *a, const double *B, double *c) {
  for (int j = 0; j < n; j++) c[j] = 0;
  for (int k = 0; k < n; k++)
    for (int j = 0; j < n; j++) c[j] += a[k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  const struct work with = {{by_columns, by_terms}};
  struct row rows[n];
  for (int i = 0; i < n; i++) {
    rows[i].i = i;
    rows[i].next = i + 1 < n ? &rows[i + 1] : 0;
  }
  for (struct row *r = rows; r; r = r->next) with.run[1](n, A + r->i * n, B, C + r->i * n);
}
