/* What is summed for an element of C, without signs: a sum of n products in any order is off by some of sqrt(n)
   roundings of this. */
void sgemm_magnitude(int n, const float *A, const float *B, float *C)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++) {
                double term = (double)A[i * n + k] * B[k * n + j];
                sum += term < 0 ? -term : term;
            }
            C[i * n + j] = sum;
        }
}
