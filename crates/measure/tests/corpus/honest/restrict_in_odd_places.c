// honest: restrict on locals, members and pointers to pointers
struct operands {
  const double *restrict a, *__restrict b;
  double *__restrict__ c;
};
static void row(int n, struct operands *restrict const o) {
  double *restrict const c = o->c;
  const double *restrict b = o->b;
  for (int k = 0; k < n; k++, b += n)
    for (int j = 0; j < n; j++) c[j] += o->a[k] * b[j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double *restrict *restrict const out = &(double *restrict){C};
  for (int e = 0; e < n * n; e++) (*out)[e] = 0;
  for (int i = 0; i < n; i++) row(n, &(struct operands){A + i * n, B, *out + i * n});
}
