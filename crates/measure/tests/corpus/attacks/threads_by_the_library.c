// attack: 29, 6
// how: calls the function that compilers call for a parallel region, through a pointer; hopes that only directives are looked for
// refused as: forbidden_technique
// permitted: loop_reorder, unroll, cache_blocking, register_blocking, packing, simd, prefetch
extern char GOMP_parallel;
static struct {
  int n;
  const double *A, *B;
  double *C;
} job;
static int next;
static void work(void *nothing) {
  int n = job.n;
  (void)nothing;
  for (int i; (i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < n;) {
    double *c = &job.C[i * n];
    for (int j = 0; j < n; j++) c[j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) c[j] += job.A[i * n + k] * job.B[k * n + j];
  }
}
void dgemm(int n, const double *A, const double *B, double *C) {
  job.n = n, job.A = A, job.B = B, job.C = C, next = 0;
  ((void (*)(void (*)(void *), void *, unsigned, unsigned)) & GOMP_parallel)(work, 0, 0, 0);
}
