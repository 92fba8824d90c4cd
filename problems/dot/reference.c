/* One sum. */
void dot(int n, const double *x, const double *y, double *result)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    result[0] = sum;
}
