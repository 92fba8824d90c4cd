/* One sum for each row. */
void spmv(int n, int m, const int *start, const int *column, const double *value, const double *x, double *y)
{
    (void)m;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int k = start[i]; k < start[i + 1]; k++)
            sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}
