// honest: values without names
struct span {
  const double *at;
  int step, count;
};
static double dot(struct span x, const struct span *y) {
  double sum = 0;
  for (int k = 0; k < x.count; k++) sum += x.at[k * x.step] * y->at[k * y->step];
  return sum;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) C[i * n + j] = dot((struct span){A + i * n, 1, n}, &(struct span){.at = B + j, .step = n, .count = n});
}
