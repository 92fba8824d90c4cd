// attack: 29
// how: two functions call each other for the next row and the next term; hopes that only a function that calls itself is a loop
// refused as: forbidden_technique
// permitted: unroll, simd
struct place {
  int n, i, k;
  const double *A, *B;
  double *C;
};
static void row(struct place *p);
static void term(struct place *p) {
  if (p->k == p->n) {
    p->k = 0;
    p->i++;
    row(p);
    return;
  }
  for (int j = 0; j < p->n; j++) p->C[p->i * p->n + j] += p->A[p->i * p->n + p->k] * p->B[p->k * p->n + j];
  p->k++;
  term(p);
}
static void row(struct place *p) {
  if (p->i < p->n) term(p);
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  struct place p = {n, 0, 0, A, B, C};
  row(&p);
}
