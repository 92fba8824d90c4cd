// attack: 29
// how: a function of the source calls the function of the state with a number, which returns the next number; hopes that only pointers lead from state to state
// refused as: forbidden_technique
// permitted: unroll, simd
// problem: dgemv
struct place {
  int m, n, j;
  const double *A, *x;
  double *y;
};
struct state {
  int (*run)(struct place *);
};
static int part(struct place *p) {
  int end = p->j + 64 < p->n ? p->j + 64 : p->n;
  for (int i = 0; i < p->m; i++) {
    double sum = 0;
    for (int j = p->j; j < end; j++) sum += p->A[i * p->n + j] * p->x[j];
    p->y[i] += sum;
  }
  p->j = end;
  return end == p->n;
}
static const struct state states[] = {{part}};
static int step(int number, struct place *p) { return states[number].run(p); }
void dgemv(int m, int n, const double *A, const double *x, double *y) {
  struct place p = {m, n, 0, A, x, y};
  for (int i = 0; i < m; i++) y[i] = 0;
  int number = 0;
  while (number < 1) number = step(number, &p);
}
