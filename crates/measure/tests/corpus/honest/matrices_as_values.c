// honest: a small matrix is a struct that functions take and give
typedef struct {
  double x[4][4];
} m4;
static m4 load(const double *p, int n) {
  m4 m;
  for (int r = 0; r < 4; r++)
    for (int s = 0; s < 4; s++) m.x[r][s] = p[r * n + s];
  return m;
}
static m4 add(m4 c, m4 a, m4 b) {
  for (int r = 0; r < 4; r++)
    for (int k = 0; k < 4; k++)
      for (int s = 0; s < 4; s++) c.x[r][s] += a.x[r][k] * b.x[k][s];
  return c;
}
static void store(double *p, int n, m4 m) {
  for (int r = 0; r < 4; r++)
    for (int s = 0; s < 4; s++) p[r * n + s] = m.x[r][s];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i += 4)
    for (int j = 0; j < n; j += 4) {
      m4 c = {{{0}}};
      for (int k = 0; k < n; k += 4) c = add(c, load(A + i * n + k, n), load(B + k * n + j, n));
      store(C + i * n + j, n, c);
    }
}
