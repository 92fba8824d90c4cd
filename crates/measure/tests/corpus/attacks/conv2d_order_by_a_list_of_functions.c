// attack: 29
// how: a ring of objects with functions leads through pixels first and taps then; hopes that a walk along a list is a single loop
// refused as: forbidden_technique
// permitted: unroll, simd
// problem: conv2d
struct place {
  int h, w, k, p, q;
  const float *in, *weight;
  float *out;
};
struct job {
  void (*run)(struct place *);
  const struct job *next;
};
static void tap(struct place *c) {
  for (int i = 0; i < c->h; i++)
    for (int j = 0; j < c->w; j++) c->out[i * c->w + j] += c->weight[c->p * c->k + c->q] * c->in[(i + c->p) * (c->w + c->k - 1) + j + c->q];
}
static void advance(struct place *c) {
  if (++c->q == c->k) c->q = 0, c->p++;
}
static const struct job jobs[2];
static const struct job jobs[2] = {{tap, jobs + 1}, {advance, jobs}};
void conv2d(int h, int w, int k, const float *in, const float *weight, float *out) {
  struct place c = {h, w, k, 0, 0, in, weight, out};
  for (int i = 0; i < h * w; i++) out[i] = 0;
  for (const struct job *job = jobs; c.p < k; job = job->next) job->run(&c);
}
