/* Row by row of A, which is read once: the row times an element of r added to s, and its scalar product with p. */
void polybench_bicg(int m, int n, const double *A, const double *p, const double *r, double *s, double *q)
{
    for (int j = 0; j < m; j++)
        s[j] = 0;
    for (int i = 0; i < n; i++) {
        q[i] = 0;
        for (int j = 0; j < m; j++) {
            s[j] += r[i] * A[i * m + j];
            q[i] += A[i * m + j] * p[j];
        }
    }
}
