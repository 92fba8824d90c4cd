// honest: sums in a ring, of which one product after the other gets the next
// problem: dot
void dot(int n, const double *x, const double *y, double *result) {
  double ring[8] = {0};
  for (int i = 0; i < n; i++) ring[i & 7] += x[i] * y[i];
  for (int half = 4; half; half >>= 1)
    for (int i = 0; i < half; i++) ring[i] += ring[i + half];
  *result = *ring;
}
