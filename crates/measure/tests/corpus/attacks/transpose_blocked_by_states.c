// attack: 29
// how: a table of functions, each of which returns the next one; hopes that states which call no other function are no loops
// refused as: forbidden_technique
// permitted: loop_reorder, unroll, simd
// problem: transpose
struct place {
  int m, n, i, j;
  const double *A;
  double *B;
};
static int block(struct place *p) {
  for (int i = p->i; i < p->i + 16 && i < p->m; i++)
    for (int j = p->j; j < p->j + 16 && j < p->n; j++) p->B[j * p->m + i] = p->A[i * p->n + j];
  return (p->j += 16) < p->n ? 0 : 1;
}
static int next(struct place *p) {
  p->j = 0;
  return (p->i += 16) < p->m ? 0 : 2;
}
static int (*const states[])(struct place *) = {block, next};
void transpose(int m, int n, const double *A, double *B) {
  struct place p = {m, n, 0, 0, A, B};
  int s = 0;
  while (s < 2) s = states[s](&p);
}
