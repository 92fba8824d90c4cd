// honest: structs with functions in them
typedef struct matrix matrix;
struct matrix {
  int n;
  union {
    const double *in;
    double *out;
  };
  double (*get)(const matrix *, int, int);
  const double *(*row)(const matrix *, int);
};
static double get(const matrix *m, int i, int j) { return m->in[i * m->n + j]; }
static const double *row(const matrix *m, int i) { return m->in + i * m->n; }
void dgemm(int n, const double *A, const double *B, double *C) {
  matrix a = {n, {A}, get, row}, b = {n, {B}, get, row}, c = {.n = n, .out = C};
  for (int i = 0; i < n; i++) {
    double *to = c.out + i * n;
    for (int j = 0; j < n; j++) to[j] = 0;
    for (int k = 0; k < n; k++) {
      double x = a.get(&a, i, k);
      const double *from = b.row(&b, k);
      for (int j = 0; j < n; j++) to[j] += x * from[j];
    }
  }
}
