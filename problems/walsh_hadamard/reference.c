/* The transform of 2h numbers is made of those of its halves, a and b: their sum a + b, and their difference a - b. */
void walsh_hadamard(int n, const double *x, double *y)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i];
    for (int h = 1; h < n; h *= 2)
        for (int base = 0; base < n; base += 2 * h)
            for (int i = base; i < base + h; i++) {
                double a = y[i], b = y[i + h];
                y[i] = a + b;
                y[i + h] = a - b;
            }
}
