// attack: 10
// how: multiplies in single precision and adds up in double; hopes that the errors of a long sum cancel and its bound grows with its length
// refused as: wrong_result
// problem: dot
void dot(int n, const double *x, const double *y, double *result) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (float)x[i] * (float)y[i];
  result[0] = sum;
}
