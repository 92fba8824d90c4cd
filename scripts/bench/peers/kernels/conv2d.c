/* tune {"parameters": {"VL": [4, 8, 16], "MR": [1, 2, 4], "NR": [1, 2, 4]}, "restrictions": []} */
/* Tiles of MR rows and NR vectors of VL pixels in registers; plain sums for the pixels at the lower and right end. */
typedef float vec __attribute__((vector_size(4 * VL), aligned(4)));

static inline float pixel(int k, int row, const float *in, const float *weight)
{
    float sum = 0;
    for (int p = 0; p < k; p++)
        for (int q = 0; q < k; q++)
            sum += weight[p * k + q] * in[(long)p * row + q];
    return sum;
}

void conv2d(int h, int w, int k, const float *in, const float *weight, float *out)
{
    int row = w + k - 1, i = 0;
    for (; i + MR <= h; i += MR) {
        int j = 0;
        for (; j + NR * VL <= w; j += NR * VL) {
            vec zero = {0};
            vec sums[MR][NR];
            for (int r = 0; r < MR; r++)
                for (int s = 0; s < NR; s++)
                    sums[r][s] = zero;
            for (int p = 0; p < k; p++)
                for (int q = 0; q < k; q++) {
                    float factor = weight[p * k + q];
                    for (int r = 0; r < MR; r++)
                        for (int s = 0; s < NR; s++)
                            sums[r][s] += factor * *(const vec *)&in[(long)(i + r + p) * row + j + q + s * VL];
                }
            for (int r = 0; r < MR; r++)
                for (int s = 0; s < NR; s++)
                    *(vec *)&out[(long)(i + r) * w + j + s * VL] = sums[r][s];
        }
        for (int r = 0; r < MR; r++)
            for (int c = j; c < w; c++)
                out[(long)(i + r) * w + c] = pixel(k, row, in + (long)(i + r) * row + c, weight);
    }
    for (; i < h; i++)
        for (int c = 0; c < w; c++)
            out[(long)i * w + c] = pixel(k, row, in + (long)i * row + c, weight);
}
