/* The textbook: one sum for each element of C, in double precision, so that what is compared with is all but exact. */
void sgemm(int n, const float *A, const float *B, float *C)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                sum += (double)A[i * n + k] * B[k * n + j];
            C[i * n + j] = sum;
        }
}
