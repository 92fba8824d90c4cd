/* Rounds each product of elements to single precision. */
void polybench_gemm(int ni, int nj, int nk, double alpha, double beta, double *C, const double *A, const double *B)
{
    for (int i = 0; i < ni; i++)
        for (int j = 0; j < nj; j++) {
            double sum = 0;
            for (int k = 0; k < nk; k++)
                sum += (float)(A[i * nk + k] * B[k * nj + j]);
            C[i * nj + j] = beta * C[i * nj + j] + alpha * sum;
        }
}
