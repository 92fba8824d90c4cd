/* Row i of the lower triangle of A is row i of the matrix up to its diagonal, and column i as well: for the one it
   adds to the rows of C above, for the other it sums up in `below`. */
void polybench_symm(int m, int n, double alpha, double beta, double *C, const double *A, const double *B)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double below = 0;
            for (int k = 0; k < i; k++) {
                C[k * n + j] += alpha * B[i * n + j] * A[i * m + k];
                below += B[k * n + j] * A[i * m + k];
            }
            C[i * n + j] = beta * C[i * n + j] + alpha * B[i * n + j] * A[i * m + i] + alpha * below;
        }
}
