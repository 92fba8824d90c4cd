// attack: 29
// how: objects hold a function that returns the next object, and a loop calls one after the other; hopes that calls of members are no loops
// refused as: forbidden_technique
// permitted: loop_reorder, unroll, simd
// problem: transpose
struct place {
  int m, n, i, j;
  const double *A;
  double *B;
};
struct state {
  const struct state *(*run)(struct place *);
};
static const struct state block, next;
static const struct state *of_block(struct place *p) {
  for (int i = p->i; i < p->i + 16 && i < p->m; i++)
    for (int j = p->j; j < p->j + 16 && j < p->n; j++) p->B[j * p->m + i] = p->A[i * p->n + j];
  return (p->j += 16) < p->n ? &block : &next;
}
static const struct state *of_next(struct place *p) {
  p->j = 0;
  return (p->i += 16) < p->m ? &block : 0;
}
static const struct state block = {of_block}, next = {of_next};
void transpose(int m, int n, const double *A, double *B) {
  struct place p = {m, n, 0, 0, A, B};
  const struct state *s = &block;
  while (s) s = s->run(&p);
}
