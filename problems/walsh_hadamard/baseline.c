/* The baseline: two layers at a time. It is correct for every power of two; it must never change, or old numbers lose
   their meaning. */
void walsh_hadamard(int n, const double *x, double *y)
{
    int h = 1;
    if (n >= 4) {
        for (int i = 0; i < n; i += 4) {
            double a = x[i] + x[i + 1], b = x[i] - x[i + 1], c = x[i + 2] + x[i + 3], d = x[i + 2] - x[i + 3];
            y[i] = a + c;
            y[i + 1] = b + d;
            y[i + 2] = a - c;
            y[i + 3] = b - d;
        }
        h = 4;
    } else {
        for (int i = 0; i < n; i++)
            y[i] = x[i];
    }
    for (; 4 * h <= n; h *= 4)
        for (int base = 0; base < n; base += 4 * h) {
            double *restrict p = &y[base], *restrict q = &y[base + h];
            double *restrict r = &y[base + 2 * h], *restrict s = &y[base + 3 * h];
            for (int i = 0; i < h; i++) {
                double a = p[i] + q[i], b = p[i] - q[i], c = r[i] + s[i], d = r[i] - s[i];
                p[i] = a + c;
                q[i] = b + d;
                r[i] = a - c;
                s[i] = b - d;
            }
        }
    for (; 2 * h <= n; h *= 2)
        for (int base = 0; base < n; base += 2 * h) {
            double *restrict p = &y[base], *restrict q = &y[base + h];
            for (int i = 0; i < h; i++) {
                double a = p[i] + q[i], b = p[i] - q[i];
                p[i] = a;
                q[i] = b;
            }
        }
}
