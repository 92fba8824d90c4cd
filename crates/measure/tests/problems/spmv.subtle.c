/* Takes for granted that every row has an element. */
void spmv(int n, int m, const int *start, const int *column, const double *value, const double *x, double *y)
{
    (void)m;
    for (int i = 0; i < n; i++) {
        int k = start[i] < 8 * n ? start[i] : 8 * n - 1;
        double sum = value[k] * x[column[k]];
        for (k++; k < start[i + 1]; k++)
            sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}
