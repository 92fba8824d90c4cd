// verified: wrong_result
void haxpy(int n, float alpha, const _Float16 *x, _Float16 *y) {
  float coarse = (int)(alpha * 8) / 8.0f;
  for (int i = 0; i < n; i++) y[i] = (_Float16)(coarse * (float)x[i] + (float)y[i]);
}
