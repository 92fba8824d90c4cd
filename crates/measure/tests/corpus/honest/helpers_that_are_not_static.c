// honest: helpers with external names
double *row_of(double *m, int n, int i) { return m + (long)i * n; }
void clear_row(int n, double *row) {
  for (int j = 0; j < n; j++) row[j] = 0;
}
void add_row(int n, double a, const double *b, double *restrict c) {
  for (int j = 0; j < n; j++) c[j] += a * b[j];
}
double scratch_of_mine[64];
extern void add_row(int n, double a, const double *b, double *restrict c);
void dgemm(int n, const double *A, const double *B, double *C);
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    clear_row(n, row_of(C, n, i));
    for (int k = 0; k < n; k++) add_row(n, A[i * n + k], B + k * n, row_of(C, n, i));
  }
}
