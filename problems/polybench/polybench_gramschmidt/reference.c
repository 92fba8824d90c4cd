#include <math.h>

/* The modified method of Gram and Schmidt, in the columns of Q: each column is brought to length one and then taken
   out of all columns to its right. */
void polybench_gramschmidt(int n, int extra, const double *A, double *R, double *Q)
{
    int m = n + extra;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            Q[i * n + j] = A[i * n + j];
    for (int k = 0; k < n; k++) {
        double square = 0;
        for (int i = 0; i < m; i++)
            square += Q[i * n + k] * Q[i * n + k];
        R[k * n + k] = sqrt(square);
        for (int i = 0; i < m; i++)
            Q[i * n + k] = Q[i * n + k] / R[k * n + k];
        for (int j = k + 1; j < n; j++) {
            R[j * n + k] = 0;
            R[k * n + j] = 0;
            for (int i = 0; i < m; i++)
                R[k * n + j] += Q[i * n + k] * Q[i * n + j];
            for (int i = 0; i < m; i++)
                Q[i * n + j] -= Q[i * n + k] * R[k * n + j];
        }
    }
}
