#include <math.h>
#include <stdlib.h>

/* The computed factors are about the exact ones of a matrix A + E, each column of E being some roundings of the length
   a_j of column j of A in no special direction, so that its product with a vector of length one is about 1/sqrt(m) of
   its length. With G = Q^T·E·R^-1, row and column k of G are then off by h_k = the root of the sum over j of
   (a_j·(R^-1)_jk)², over sqrt(m). From (Q + C)·(R + D) = A + E, with columns of Q + C of length one and orthogonal,
   follows D·R^-1 = the upper half of G + G^T, and C = E·R^-1 - Q·D·R^-1. Gram's and Schmidt's columns are orthogonal
   only up to about G, which doubles this at most. The sum of squares that a column is divided by the root of is off by
   some of sqrt(m) roundings of itself, and with it a row of R and a column of Q. Roundings have either sign, so squares
   are added. */
void polybench_gramschmidt_magnitude(int n, int extra, const double *A, double *R, double *Q)
{
    int m = n + extra;
    double *length = calloc(n, sizeof *length), *h = calloc(n, sizeof *h);
    double *inverse = calloc((size_t)n * n, sizeof *inverse), *d = calloc((size_t)n * n, sizeof *d);
    if (!length || !h || !inverse || !d)
        abort();
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            Q[i * n + j] = A[i * n + j];
            length[j] += A[i * n + j] * A[i * n + j];
        }
    for (int k = 0; k < n; k++) {
        double *r = &R[k * n];
        for (int j = 0; j < n; j++)
            r[j] = 0;
        for (int i = 0; i < m; i++)
            for (int j = k; j < n; j++)
                r[j] += Q[i * n + k] * Q[i * n + j];
        double root = sqrt(r[k]);
        for (int j = k; j < n; j++)
            r[j] /= root;
        for (int i = 0; i < m; i++) {
            Q[i * n + k] /= root;
            for (int j = k + 1; j < n; j++)
                Q[i * n + j] -= Q[i * n + k] * r[j];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        double *row = &inverse[i * n];
        row[i] = 1;
        for (int k = i + 1; k < n; k++)
            for (int j = k; j < n; j++)
                row[j] -= R[i * n + k] * inverse[k * n + j];
        for (int j = i; j < n; j++) {
            row[j] /= R[i * n + i];
            h[j] += length[i] * row[j] * row[j];
        }
    }
    /* h and all that follows are squares, until the last line. */
    for (int k = 0; k < n; k++)
        for (int t = k; t < n; t++)
            for (int j = t; j < n; j++)
                d[k * n + j] += (h[t] + h[k]) * R[t * n + j] * R[t * n + j];
    for (int i = 0; i < m; i++) {
        double *q = &Q[i * n], before = 0, both = 0;
        for (int j = 0; j < n; j++) {
            double own = q[j] * q[j];
            before += own;
            both += own * h[j];
            q[j] = sqrt((h[j] + both + before * h[j]) / m + own);
        }
    }
    for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++)
            R[k * n + j] = j < k ? 0 : sqrt(d[k * n + j] / m + R[k * n + j] * R[k * n + j]);
    free(length);
    free(h);
    free(inverse);
    free(d);
}
