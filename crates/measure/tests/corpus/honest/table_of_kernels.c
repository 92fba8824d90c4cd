// honest: a table of functions, chosen by a size
typedef void kernel(int n, const double *a, const double *b, double *c);
static kernel four, eight;
static kernel *const table[] = {four, eight};
void dgemm(int n, const double *A, const double *B, double *C) {
  int which = n % 8 == 0, width = which ? 8 : 4;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j += width) (*table[which])(n, A + i * n, B + j, C + i * n + j);
}
static void four(int n, const double *a, const double *b, double *c) {
  double s[4] = {0};
  for (int k = 0; k < n; k++)
    for (int q = 0; q < 4; q++) s[q] += a[k] * b[k * n + q];
  for (int q = 0; q < 4; q++) c[q] = s[q];
}
static void eight(int n, const double *a, const double *b, double *c) {
  double s[8] = {0};
  for (int k = 0; k < n; k++)
    for (int q = 0; q < 8; q++) s[q] += a[k] * b[k * n + q];
  for (int q = 0; q < 8; q++) c[q] = s[q];
}
