/* The baseline: the plain loop. Rows are so short that the time goes into their ends, which no processor foresees, and
   several sums for each row only cost more. It is correct for every size; it must never change, or old numbers lose
   their meaning. */
void spmv(int n, int m, const int *start, const int *column, const double *value, const double *x, double *y)
{
    (void)m;
    for (int i = 0, k = 0; i < n; i++) {
        double sum = 0;
        for (int end = start[i + 1]; k < end; k++)
            sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}
