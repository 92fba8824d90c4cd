/* problem: dot */
/* techniques: cache_blocking */
static void part(int count, const double *x, const double *y, double *sum) {
  for (int i = 0; i < count; i++) *sum += x[i] * y[i];
}
void dot(int n, const double *x, const double *y, double *result) {
  double total = 0;
  for (int from = 0; from < n; from += 2048) {
    double sum = 0;
    part(n - from < 2048 ? n - from : 2048, x + from, y + from, &sum);
    total += sum;
  }
  result[0] = total;
}
