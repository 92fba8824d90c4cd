// honest: everything in single precision, the coefficients as well
// problem: polybench_deriche
#include <math.h>
#include <stdlib.h>
static void filter(int count, int step, float a1, float a2, float a3, float a4, float b1, float b2, const float *x,
                   float *y) {
  float x1 = 0, x2 = 0, y1 = 0, y2 = 0;
  for (int n = 0; n < count; n++) {
    float here = a1 * x[n * step] + a2 * x1 + b1 * y1 + b2 * y2;
    x1 = x[n * step];
    y2 = y1;
    y[n * step] = y1 = here;
  }
  x1 = y1 = y2 = 0;
  for (int n = count - 1; n >= 0; n--) {
    float here = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2;
    x2 = x1;
    x1 = x[n * step];
    y2 = y1;
    y[n * step] += y1 = here;
  }
}
void polybench_deriche(int w, int h, float alpha, const float *in, float *out) {
  float *middle = malloc(sizeof *middle * w * h);
  if (!middle) abort();
  float e = expf(-alpha), k = (1 - e) * (1 - e) / (1 + 2 * alpha * e - e * e);
  float a2 = k * e * (alpha - 1), a3 = k * e * (alpha + 1), a4 = -k * e * e, b1 = exp2f(-alpha), b2 = -e * e;
  for (int i = 0; i < w; i++) filter(h, 1, k, a2, a3, a4, b1, b2, &in[i * h], &middle[i * h]);
  for (int j = 0; j < h; j++) filter(w, h, k, a2, a3, a4, b1, b2, &middle[j], &out[j]);
  free(middle);
}
