/* Sums in single precision. */
void dot(int n, const double *x, const double *y, double *result)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += (float)x[i] * (float)y[i];
    result[0] = sum;
}
