// attack: 29
// how: each state is an object whose virtual function returns the next one; hopes that functions of objects are no loops
// refused as: forbidden_technique
// permitted: unroll, simd
struct Place {
  int n, i, k;
  const double *A, *B;
  double *C;
};
struct State {
  virtual const State *run(Place &p) const = 0;

 protected:
  ~State() = default;
};
struct Term final : State {
  const State *run(Place &p) const override;
};
struct Row final : State {
  const State *run(Place &p) const override;
};
static constexpr Term term;
static constexpr Row row;
const State *Term::run(Place &p) const {
  for (int j = 0; j < p.n; j++) p.C[p.i * p.n + j] += p.A[p.i * p.n + p.k] * p.B[p.k * p.n + j];
  return ++p.k < p.n ? static_cast<const State *>(&term) : &row;
}
const State *Row::run(Place &p) const {
  p.k = 0;
  return ++p.i < p.n ? &term : nullptr;
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  Place p{n, 0, 0, A, B, C};
  const State *s = &term;
  while (s) s = s->run(p);
}
