/* Takes the elements of r in single precision. */
void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q)
{
    for (int j = 0; j < m; j++)
        s[j] = 0;
    for (int i = 0; i < n; i++) {
        float factor = r[i];
        q[i] = 0;
        for (int j = 0; j < m; j++) {
            s[j] += factor * A[i * m + j];
            q[i] += A[i * m + j] * p[j];
        }
    }
}
