/* The last layer is rounded to single precision. */
void walsh_hadamard(int n, const double *x, double *y)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i];
    for (int h = 1; h < n; h *= 2)
        for (int base = 0; base < n; base += 2 * h)
            for (int i = base; i < base + h; i++) {
                double a = y[i], b = y[i + h];
                y[i] = 2 * h == n ? (float)(a + b) : a + b;
                y[i + h] = 2 * h == n ? (float)(a - b) : a - b;
            }
}
