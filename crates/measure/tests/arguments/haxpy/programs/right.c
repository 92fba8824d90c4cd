// right
void haxpy(int n, float alpha, const _Float16 *x, _Float16 *y) {
  for (int i = n - 1; i >= 0; i--) {
    float sum = alpha * (float)x[i] + (float)y[i];
    y[i] = (_Float16)sum;
  }
}
